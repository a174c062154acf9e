//! The token bucket, as its theoretical arrival time (GCRA): the moment at which the bucket would be full again.
//!
//! Exact at any rate: that moment is a whole number of microseconds and a remainder in 1/refill of one. Here it is one
//! number of such parts; a script adds pairs with a carry instead, so that it never multiplies.

use std::time::Duration;

use super::evaluate::Holds;
use super::standing::Standing;
use crate::time::Timestamp;

/// A bucket's moment of being full: `at_us + part / refill` microseconds of the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullAt {
    /// Whole microseconds.
    pub at_us: u64,
    /// The rest, in parts of 1/refill microsecond; below refill.
    pub part: u64,
}

/// A bucket at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    capacity: u64,
    refill: u64,
    period_us: u64,
    now_us: u64,
    /// What is missing, in 1/refill of a microsecond of refilling.
    missing: u128,
}

impl Bucket {
    #[inline]
    pub(super) fn load(
        capacity: u64,
        refill: u64,
        period_us: u64,
        stored: Option<FullAt>,
        now: Timestamp,
    ) -> (Self, bool) {
        let now_us = now.as_micros();
        let most = u128::from(capacity) * u128::from(period_us);
        // Idle credit ends at now.
        let missing = stored
            .filter(|full| full.at_us >= now_us)
            .map_or(0, |full| u128::from(full.at_us - now_us) * u128::from(refill) + u128::from(full.part));
        // More than empty cannot be: the clock was set back.
        let is_faulty = missing > most;
        (Self { capacity, refill, period_us, now_us, missing: missing.min(most) }, is_faulty)
    }

    #[inline]
    fn level(&self) -> u128 {
        u128::from(self.capacity) * u128::from(self.period_us) - self.missing
    }

    pub(super) fn give_back(&mut self, cost: u64) {
        self.missing = self.missing.saturating_sub(u128::from(cost) * u128::from(self.period_us));
    }

    #[inline]
    pub(super) fn reset(&self) -> Duration {
        self.refilled(self.missing)
    }

    #[inline]
    fn refilled(&self, parts: u128) -> Duration {
        if parts == 0 {
            return Duration::ZERO;
        }
        let (whole, part) = divide(parts, self.refill);
        Duration::from_micros(whole.saturating_add(u64::from(part > 0)))
    }

    /// `None`: full.
    #[inline]
    pub(super) fn stored(&self) -> Option<FullAt> {
        let (whole, part) = divide(self.missing, self.refill);
        (self.missing > 0).then(|| FullAt { at_us: self.now_us + whole, part })
    }

    /// The cost as a script adds it: whole microseconds, and parts of 1/refill.
    pub fn step(cost: u64, refill: u64, period_us: u64) -> (u64, u64) {
        divide(u128::from(cost) * u128::from(period_us), refill)
    }
}

/// Quotient, saturating, and rest. Wide division is slow, and few numbers need it.
#[inline]
fn divide(parts: u128, by: u64) -> (u64, u64) {
    if let Ok(parts) = u64::try_from(parts) {
        return (parts / by, parts % by);
    }
    let narrow = |parts: u128| u64::try_from(parts).unwrap_or(u64::MAX);
    (narrow(parts / u128::from(by)), narrow(parts % u128::from(by)))
}

impl Holds for Bucket {
    #[inline]
    fn capacity(&self) -> u64 {
        self.capacity
    }

    #[inline]
    fn available(&self) -> u64 {
        divide(self.level(), self.period_us).0
    }

    /// Without dividing.
    #[inline]
    fn has(&self, cost: u64) -> bool {
        u128::from(cost) * u128::from(self.period_us) <= self.level()
    }

    #[inline]
    fn take(&mut self, cost: u64) {
        self.missing += u128::from(cost) * u128::from(self.period_us);
    }

    #[inline]
    fn retry_after(&self, cost: u64) -> Option<Duration> {
        let wanted = u128::from(cost) * u128::from(self.period_us);
        (cost <= self.capacity).then(|| self.refilled(wanted.saturating_sub(self.level())))
    }

    #[inline]
    fn standing(&self, cost: u64) -> Standing {
        Standing {
            limit: self.capacity,
            remaining: self.available(),
            retry_after: self.retry_after(cost),
            reset: self.reset(),
        }
    }
}

impl FullAt {
    /// When it may be forgotten.
    #[inline]
    pub(super) fn ends_us(self) -> u64 {
        self.at_us + u64::from(self.part > 0)
    }
}
