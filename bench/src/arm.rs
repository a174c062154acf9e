//! What an arm does again and again.

use anyhow::Result;
use lockkeeper::{Keeper, Lock};

use crate::bare::Bare;
use crate::stage;

/// One side of a comparison.
pub(crate) trait Arm: Send + 'static {
    /// Acquires and releases once.
    fn cycle(&mut self, number: u64) -> impl Future<Output = Result<()>> + Send;
}

/// Bare calls, on a new key each time.
pub(crate) struct BareNew(pub(crate) Bare);

/// Bare calls, always on this key.
pub(crate) struct BareSame(pub(crate) Bare, pub(crate) String);

/// Lockkeeper, with a lock on a new key each time.
pub(crate) struct New(pub(crate) Keeper);

/// Lockkeeper, always with this lock.
pub(crate) struct Same(pub(crate) Lock);

impl Arm for BareNew {
    async fn cycle(&mut self, number: u64) -> Result<()> {
        self.0.cycle(&new_name(number), number).await
    }
}

impl Arm for BareSame {
    async fn cycle(&mut self, number: u64) -> Result<()> {
        self.0.cycle(&self.1, number).await
    }
}

impl Arm for New {
    async fn cycle(&mut self, number: u64) -> Result<()> {
        stage::cycle(&stage::lock(&self.0, &new_name(number))?).await
    }
}

impl Arm for Same {
    async fn cycle(&mut self, _number: u64) -> Result<()> {
        stage::cycle(&self.0).await
    }
}

pub(crate) fn new_name(number: u64) -> String {
    format!("order:{number}")
}
