//! A provider that takes no real money, and can be told to misbehave.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::ledger::{Ledger, Taken};
use super::provider::{PaymentError, Provider};
use crate::database::{Database, DatabaseError};
use crate::orders::{Cents, OrderNo};

/// What goes wrong with one call to [`FakeProvider`].
#[derive(Clone, Debug)]
pub enum Trouble {
    /// It takes this long, and then happens.
    Slow(Duration),
    /// It does not happen.
    Down,
    /// It is declined.
    Declines,
    /// It is declined when the semaphore has a permit, and takes that.
    HoldsAndDeclines(Arc<Semaphore>),
    /// It happens, and no answer comes.
    LosesReply,
    /// It happens when the semaphore has a permit, and takes that.
    Holds(Arc<Semaphore>),
}

/// A provider that takes no real money. Clones share everything; processes on one database share the books.
#[derive(Clone, Debug)]
pub struct FakeProvider {
    ledger: Ledger,
    shared: Arc<Shared>,
    delay: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    troubles: Mutex<VecDeque<Trouble>>,
    asked: AtomicU64,
    failing_voids: AtomicU64,
}

impl FakeProvider {
    /// With its books in this database.
    pub fn new(database: Database) -> Self {
        Self { ledger: Ledger::new(database), shared: Arc::default(), delay: Duration::ZERO }
    }

    /// Every charge takes this long.
    #[must_use]
    pub fn slow(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// The next charge without a trouble of its own meets this one.
    pub fn next(&self, trouble: Trouble) {
        self.shared.troubles.lock().push_back(trouble);
    }

    /// The next void does not happen.
    pub fn fail_next_void(&self) {
        self.shared.failing_voids.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was asked to charge.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// What it took and did not give back.
    ///
    /// # Errors
    /// The database is away.
    ///
    /// # Cancel safety
    /// It changes nothing.
    ///
    /// # Redis
    /// None.
    pub async fn taken(&self) -> Result<Taken, DatabaseError> {
        self.ledger.taken().await
    }

    /// Its books.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    async fn charge(&self, reference: &OrderNo, amount: Cents) -> Result<String, PaymentError> {
        self.shared.asked.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.delay).await;
        let trouble = self.shared.troubles.lock().pop_front();
        match &trouble {
            Some(Trouble::Slow(time)) => tokio::time::sleep(*time).await,
            Some(Trouble::Down) => return Err(PaymentError::Unavailable),
            Some(Trouble::Declines) => return Err(no_money()),
            Some(Trouble::Holds(gate)) => pass(gate).await?,
            Some(Trouble::HoldsAndDeclines(gate)) => {
                pass(gate).await?;
                return Err(no_money());
            }
            Some(Trouble::LosesReply) | None => {}
        }
        let entry = self.ledger.charge(reference, amount).await.map_err(|_| PaymentError::Unanswered)?;
        if matches!(trouble, Some(Trouble::LosesReply)) {
            return Err(PaymentError::Unanswered);
        }
        match entry {
            Some(entry) if entry.is_void => Err(PaymentError::Declined("the payment was voided".to_owned())),
            Some(entry) if entry.amount != amount.as_i64() => {
                Err(PaymentError::Declined("another amount was charged under this reference".to_owned()))
            }
            entry => entry.and_then(|entry| entry.charge).ok_or(PaymentError::Unanswered),
        }
    }
}

fn no_money() -> PaymentError {
    PaymentError::Declined("not enough money".to_owned())
}

async fn pass(gate: &Semaphore) -> Result<(), PaymentError> {
    gate.acquire().await.map_err(|_| PaymentError::Unavailable)?.forget();
    Ok(())
}

impl Provider for FakeProvider {
    fn charge<'a>(
        &'a self,
        reference: &'a OrderNo,
        amount: Cents,
    ) -> BoxFuture<'a, Result<String, PaymentError>> {
        self.charge(reference, amount).boxed()
    }

    fn void<'a>(&'a self, reference: &'a OrderNo) -> BoxFuture<'a, Result<(), PaymentError>> {
        async {
            let failing = &self.shared.failing_voids;
            let took = failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if took.is_ok() {
                return Err(PaymentError::Unavailable);
            }
            self.ledger.void(reference).await.map_err(|_| PaymentError::Unanswered)
        }
        .boxed()
    }
}
