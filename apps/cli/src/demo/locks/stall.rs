//! The episode of the stalled worker: two resources, and the three writes that reach them.

use std::time::Duration;

use lockkeeper::core::Error;
use lockkeeper::{Lock, LockGuard};

use super::outcome::Stalled;

/// The stalled worker's lease, which it does not renew.
pub(super) const SHORT_LEASE: Duration = Duration::from_millis(150);
/// The longest time until the second worker has taken over.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the first worker writes in time, the second writes, and the first writes late.
pub(super) const FIRST: &str = "first";
pub(super) const SECOND: &str = "second";
pub(super) const LATE: &str = "first, late";

/// A value with the greatest fence that it was written with, and one that knows of no fences.
#[derive(Debug, Default)]
pub(super) struct Resources {
    greatest: u64,
    fenced: &'static str,
    plain: &'static str,
}

impl Resources {
    /// Writes to both. Whether the one that checks fences accepted it, and whether the other did.
    pub(super) fn write(&mut self, fence: u64, value: &'static str) -> (bool, bool) {
        let accepted = fence >= self.greatest;
        if accepted {
            (self.greatest, self.fenced) = (fence, value);
        }
        self.plain = value;
        (accepted, self.plain == value)
    }

    /// The end of the story, when the late write was answered.
    pub(super) fn end(&self, first: (u64, String), second: u64, late: (bool, bool)) -> Stalled {
        Stalled {
            first_fence: first.0,
            second_fence: second,
            first_lost: first.1,
            fenced_accepted: late.0,
            plain_accepted: late.1,
            fenced_holds: self.fenced,
            plain_holds: self.plain,
        }
    }
}

/// Takes the lock as the worker that will stall.
pub(super) async fn take_briefly(lock: &Lock) -> Result<LockGuard, Error> {
    lock.clone().lease(SHORT_LEASE).no_renewal().wait(PATIENCE).acquire().await?.or_busy()
}

/// Takes it over.
pub(super) async fn take_over(lock: &Lock) -> Result<LockGuard, Error> {
    lock.clone().wait(PATIENCE).acquire().await?.or_busy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_fence_is_refused_by_the_resource_that_looks() {
        let mut resources = Resources::default();
        assert_eq!(resources.write(1, FIRST), (true, true));
        assert_eq!(resources.write(2, SECOND), (true, true));
        assert_eq!(resources.write(1, LATE), (false, true));
        assert_eq!((resources.fenced, resources.plain), (SECOND, LATE));
    }
}
