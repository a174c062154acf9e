//! The fixed window: a count, and when its window began.

use std::time::Duration;

use super::quota::WindowStart;
use crate::time::Timestamp;

/// A window at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    count: u64,
    window_us: u64,
    from: WindowStart,
    now_us: u64,
    start_us: u64,
    used: u64,
    /// It was there before this call, so its beginning is settled.
    is_begun: bool,
}

impl Window {
    pub(super) fn load(
        count: u64,
        window_us: u64,
        from: WindowStart,
        stored: Option<(u64, u64)>,
        now: Timestamp,
    ) -> (Self, bool) {
        let now_us = now.as_micros();
        let begins = match from {
            WindowStart::Aligned => now_us - now_us % window_us,
            WindowStart::FirstCall => now_us,
        };
        let fresh = Self { count, window_us, from, now_us, start_us: begins, used: 0, is_begun: false };
        match stored {
            // Begun more than a window ahead: the clock was set back. What was used stays used.
            Some((start_us, used)) if start_us > now_us + window_us => {
                (Self { used, is_begun: true, ..fresh }, true)
            }
            // Running, or begun a little ahead: a stored time never moves back.
            Some((start_us, used)) if now_us < start_us + window_us => {
                (Self { start_us, used, is_begun: true, ..fresh }, false)
            }
            _ => (fresh, false),
        }
    }

    pub(super) fn available(&self) -> u64 {
        self.count.saturating_sub(self.used)
    }

    pub(super) fn take(&mut self, cost: u64) {
        self.used += cost;
    }

    /// Never moves the window.
    pub(super) fn give_back(&mut self, cost: u64) {
        self.used = self.used.saturating_sub(cost);
    }

    pub(super) fn retry_after(&self, cost: u64) -> Duration {
        if cost <= self.available() { Duration::ZERO } else { self.left() }
    }

    pub(super) fn reset(&self) -> Duration {
        if self.used == 0 { Duration::ZERO } else { self.left() }
    }

    fn left(&self) -> Duration {
        Duration::from_micros(self.ends_us() - self.now_us)
    }

    fn ends_us(&self) -> u64 {
        self.start_us + self.window_us
    }

    /// Start, used, and when it may be forgotten. `None`: nothing worth keeping.
    pub(super) fn stored(&self) -> Option<(u64, u64, u64)> {
        let is_worth = self.used > 0 || (self.from == WindowStart::FirstCall && self.is_begun);
        is_worth.then(|| (self.start_us, self.used, self.ends_us()))
    }
}
