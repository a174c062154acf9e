//! What the layer has done, for those who look.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A handle on the counters of a layer and all its clones.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    counters: Arc<Counters>,
}

/// What was counted since the layer was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests that were sent, retries included.
    pub attempts: u64,
    /// Of these, the second and later ones of a call.
    pub retries: u64,
    /// Requests and retries that were not sent: the circuit shed them, or their origin is held back for too long.
    pub shed: u64,
    /// How often a request waited because its origin was held back.
    pub held_back: u64,
    /// Retries that did not happen because the budget was used up.
    pub budget_exhausted: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) attempts: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) shed: AtomicU64,
    pub(crate) held_back: AtomicU64,
    pub(crate) budget_exhausted: AtomicU64,
}

impl Statistics {
    /// The counts now. They are read one after the other.
    pub fn read(&self) -> Counts {
        let Counters { attempts, retries, shed, held_back, budget_exhausted } = &*self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            attempts: read(attempts),
            retries: read(retries),
            shed: read(shed),
            held_back: read(held_back),
            budget_exhausted: read(budget_exhausted),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
