//! What happens often and is said seldom, so that the log is not flooded.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often something happened.
#[derive(Debug, Default)]
pub(crate) struct Seldom(AtomicU64);

impl Seldom {
    /// It happened. How often, where that is worth saying: the first time, the second, the fourth, and so on.
    pub(crate) fn worth_saying(&self) -> Option<u64> {
        let times = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        times.is_power_of_two().then_some(times)
    }

    #[cfg(feature = "idempotency")]
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
