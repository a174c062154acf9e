//! What the keeper's thread does because nobody else does it (any more).

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Clock;

use crate::backend::Backend;
use crate::lock::GiveBack;
use crate::once::Finish;

/// Work that nobody waits for, or need not wait for.
#[derive(Debug)]
pub(crate) enum Chore {
    GiveBack(GiveBack),
    Finish(Finish),
}

impl Chore {
    /// Works until it is done or given up.
    pub(crate) async fn run(self, backend: Backend, clock: Arc<dyn Clock>, response_timeout: Duration) {
        match self {
            Self::GiveBack(what) => what.run(backend, clock, response_timeout).await,
            Self::Finish(what) => what.run().await,
        }
    }

    /// Nobody will do it.
    pub(crate) fn refused(self, why: &'static str) {
        tracing::warn!(what = ?self, why, "it was left to its lease");
        match self {
            Self::GiveBack(_) => {}
            Self::Finish(what) => what.refused(why),
        }
    }
}
