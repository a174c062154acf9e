//! The sliding counter: two aligned windows, of which the older one counts by the share that still lies within.
//!
//! `previous × (W − elapsed) + (current + cost) × W ≤ count × W`, with all products below 2^53; where they would not be, time
//! is counted in coarser units ([`Quota::counter_unit`]), which lets through a little less, never more.

use std::time::Duration;

use super::quota::Quota;
use crate::time::Timestamp;

/// Two windows at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    count: u64,
    window_us: u64,
    /// Microseconds per unit, and units per window.
    unit_us: u64,
    units: u64,
    now_us: u64,
    start_us: u64,
    previous: u64,
    current: u64,
}

impl Counter {
    pub(super) fn load(
        count: u64,
        window_us: u64,
        stored: Option<(u64, u64, u64)>,
        now: Timestamp,
    ) -> (Self, bool) {
        let now_us = now.as_micros();
        let start_us = now_us - now_us % window_us;
        let (unit_us, units) = Quota::counter_unit(count, window_us);
        let fresh = Self { count, window_us, unit_us, units, now_us, start_us, previous: 0, current: 0 };
        let Some((stored_us, previous, current)) = stored else { return (fresh, false) };
        let (previous, current) = (previous.min(count), current.min(count));
        if stored_us > now_us + window_us {
            // The clock was set back. What was used stays used.
            (Self { previous, current, ..fresh }, true)
        } else if stored_us >= start_us {
            (Self { start_us: stored_us, previous, current, ..fresh }, false)
        } else if stored_us + window_us == start_us {
            (Self { previous: current, ..fresh }, false)
        } else {
            (fresh, false)
        }
    }

    /// Units of the current window that have passed.
    fn elapsed(&self) -> u64 {
        self.now_us.saturating_sub(self.start_us) / self.unit_us
    }

    /// What is free, in calls × units; negative where a limit was lowered.
    fn free(&self) -> u64 {
        let used = self.previous * (self.units - self.elapsed()) + self.current * self.units;
        (self.count * self.units).saturating_sub(used)
    }

    pub(super) fn available(&self) -> u64 {
        self.free() / self.units
    }

    /// Without dividing.
    pub(super) fn has(&self, cost: u64) -> bool {
        cost <= self.count && cost * self.units <= self.free()
    }

    pub(super) fn take(&mut self, cost: u64) {
        self.current += cost;
    }

    /// From the current window only: the previous one is past.
    pub(super) fn give_back(&mut self, cost: u64) {
        self.current = self.current.saturating_sub(cost);
    }

    pub(super) fn retry_after(&self, cost: u64) -> Duration {
        if cost <= self.available() {
            return Duration::ZERO;
        }
        let (now, next, last) =
            (self.start_us, self.start_us + self.window_us, self.start_us + 2 * self.window_us);
        let here = self.opens(self.previous, self.current + cost).map(|after| now + after);
        // There, what is current now is the previous window.
        let there = self.opens(self.current, cost).map(|after| next + after);
        Duration::from_micros(here.or(there).unwrap_or(last).saturating_sub(self.now_us))
    }

    /// How long after the beginning of a window, microseconds, `wanted` calls fit beside those of the window before.
    /// `None`: not in this window.
    fn opens(&self, previous: u64, wanted: u64) -> Option<u64> {
        let room = self.count.checked_sub(wanted)?;
        let share = (room * self.units).checked_div(previous).unwrap_or(u64::MAX);
        let after = self.units.saturating_sub(share) * self.unit_us;
        (after < self.window_us).then_some(after)
    }

    pub(super) fn reset(&self) -> Duration {
        let windows = match (self.previous, self.current) {
            (0, 0) => return Duration::ZERO,
            (_, 0) => 1,
            _ => 2,
        };
        Duration::from_micros((self.start_us + windows * self.window_us).saturating_sub(self.now_us))
    }

    /// Start, previous, current, and when it may be forgotten. `None`: nothing worth keeping.
    pub(super) fn stored(&self) -> Option<(u64, u64, u64, u64)> {
        let is_worth = self.previous > 0 || self.current > 0;
        is_worth.then(|| (self.start_us, self.previous, self.current, self.start_us + 2 * self.window_us))
    }
}
