//! Under which primary the server last said that a lease runs.

use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::Uptime;

use super::outcome::LossReason;

/// The term of a lease's last confirmation; see [`RedisStore::term`](lockkeeper_redis::RedisStore::term).
#[derive(Debug)]
pub(crate) struct Confirmed(AtomicU64);

impl Confirmed {
    /// Granted for a request that was sent in `term`.
    pub(crate) fn new(term: u64) -> Self {
        Self(AtomicU64::new(term))
    }

    /// Renewed by a request that was sent in `term`.
    pub(crate) fn again(&self, term: u64) {
        self.0.fetch_max(term, Ordering::AcqRel);
    }

    /// Why a lease was lost before its end: another primary does not know it, or for the `reason` that shows.
    pub(crate) fn loss(&self, term: u64, reason: LossReason) -> LossReason {
        if self.is_in(term) { reason } else { LossReason::Failover }
    }

    /// When to look after it: at `due`, or at once if the primary is another by now.
    pub(crate) fn due(&self, term: u64, due: Uptime) -> Uptime {
        if self.is_in(term) { due } else { Uptime::default() }
    }

    /// `term` is that of the last confirmation.
    pub(crate) fn is_in(&self, term: u64) -> bool {
        self.0.load(Ordering::Acquire) == term
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_failovers_until_the_new_primary_has_confirmed_the_lease() {
        let confirmed = Confirmed::new(1);
        assert_eq!(confirmed.loss(1, LossReason::KeyGone), LossReason::KeyGone);
        assert_eq!(confirmed.loss(2, LossReason::KeyGone), LossReason::Failover);
        assert_eq!(confirmed.due(2, Uptime::MAX), Uptime::default());
        confirmed.again(2);
        assert_eq!(confirmed.loss(2, LossReason::KeyGone), LossReason::KeyGone);
        assert_eq!(confirmed.due(2, Uptime::MAX), Uptime::MAX);
    }
}
