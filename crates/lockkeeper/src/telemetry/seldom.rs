//! Warnings that a stranger or an outage could cause without end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::Uptime;

/// The least time between two warnings of a kind about one name.
pub(super) const AT_MOST_EVERY: Duration = Duration::from_secs(60);

/// At most one warning a minute.
#[derive(Debug, Default)]
pub(super) struct Seldom {
    /// Microseconds of uptime.
    next: AtomicU64,
}

impl Seldom {
    /// One may be written now; asking takes it.
    pub(super) fn may(&self, now: Uptime) -> bool {
        let (due, next) = (self.next.load(Ordering::Relaxed), now.after(AT_MOST_EVERY).as_micros());
        now.as_micros() >= due
            && self.next.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// At most one warning for an outage, and one a minute where it comes and goes.
#[derive(Debug, Default)]
pub(super) struct Outage {
    is_told: AtomicBool,
    seldom: Seldom,
}

impl Outage {
    /// It is there. True: nobody was told yet. One that began too soon after the last is told later, if it lasts.
    pub(super) fn is_news(&self, now: Uptime) -> bool {
        let is_news = !self.is_told.load(Ordering::Relaxed) && self.seldom.may(now);
        if is_news {
            self.is_told.store(true, Ordering::Relaxed);
        }
        is_news
    }

    /// It is over. Costs one read while there is none.
    pub(super) fn ended(&self) {
        if self.is_told.load(Ordering::Relaxed) {
            self.is_told.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Uptime {
        Uptime::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn an_outage_is_told_once_and_a_flickering_one_once_a_minute() {
        let outage = Outage::default();
        assert!(outage.is_news(at(0)));
        assert!(!outage.is_news(at(1)) && !outage.is_news(at(3600)), "the same one");
        outage.ended();
        assert!(outage.is_news(at(3601)));
        outage.ended();
        assert!(!outage.is_news(at(3602)), "too soon after the last");
        assert!(!outage.is_news(at(3660)));
        assert!(outage.is_news(at(3661)), "but it lasts");
        assert!(!outage.is_news(at(9999)));
    }
}
