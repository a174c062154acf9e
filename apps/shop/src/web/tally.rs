//! How this process has answered, by reason.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use super::reason::Reason;

/// Counts of answers of this process since it began.
#[derive(Debug)]
pub struct Tally {
    refused: [AtomicU64; Reason::ALL.len()],
    accepted: AtomicU64,
    repeated: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        let refused = array::from_fn(|_| AtomicU64::new(0));
        Self { refused, accepted: AtomicU64::new(0), repeated: AtomicU64::new(0) }
    }
}

impl Tally {
    /// How often for this reason.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused[reason as usize].load(Ordering::Relaxed)
    }

    /// All reasons that occurred, with their counts.
    pub fn refusals(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().map(|reason| (reason, self.refused(reason))).filter(|(_, count)| *count > 0)
    }

    /// Units of flash sales that were given away.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Clicks of those who had one already.
    pub fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }

    pub(crate) fn refuse(&self, reason: Reason) {
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn accept(&self, is_first: bool) {
        let counter = if is_first { &self.accepted } else { &self.repeated };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
