//! A quota at a moment, whatever its algorithm: what is there, what a call takes, when more comes.

use std::time::Duration;

use super::ask::Ask;
use super::bucket::Bucket;
use super::cell::{LimitCell, Stored};
use super::counter::Counter;
use super::log::{Log, Times};
use super::quota::{Algorithm, Quota};
use super::standing::Standing;
use super::window::Window;
use crate::time::Timestamp;

/// How much of a quota is there at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    quota: Quota,
    kind: Kind,
    /// What was stored has to be written anew, also where nothing is taken.
    pub needs_repair: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Bucket(Bucket),
    Window(Window),
    Counter(Counter),
    Log(Log),
}

/// What is stored is not of this quota's algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

impl Level {
    /// The level of `quota` at `now`, from what is stored.
    ///
    /// A reference time further ahead than the quota's own length cannot come from this clock: it was set back. It is
    /// brought near (what was used stays used), so that nobody is refused for longer than two windows.
    ///
    /// # Errors
    /// What is stored is not of this algorithm.
    pub fn load(quota: Quota, stored: Stored, now: Timestamp) -> Result<Self, Foreign> {
        let (kind, needs_repair) = match (quota.algorithm(), stored) {
            (Algorithm::TokenBucket { capacity, refill, period_us }, stored) => {
                let stored = match stored {
                    Stored::Empty => None,
                    // Parts are below one; so it was written by somebody else.
                    Stored::Bucket(full) if full.part < refill => Some(full),
                    _ => return Err(Foreign),
                };
                let (bucket, is_faulty) = Bucket::load(capacity, refill, period_us, stored, now);
                (Kind::Bucket(bucket), is_faulty)
            }
            (Algorithm::FixedWindow { count, window_us, from }, stored) => {
                let stored = match stored {
                    Stored::Empty => None,
                    Stored::Window(start_us, used) => Some((start_us, used)),
                    _ => return Err(Foreign),
                };
                let (window, is_faulty) = Window::load(count, window_us, from, stored, now);
                (Kind::Window(window), is_faulty)
            }
            (Algorithm::SlidingCounter { count, window_us }, stored) => {
                let stored = match stored {
                    Stored::Empty => None,
                    Stored::Counter(start_us, previous, current) => Some((start_us, previous, current)),
                    _ => return Err(Foreign),
                };
                let (counter, is_faulty) = Counter::load(count, window_us, stored, now);
                (Kind::Counter(counter), is_faulty)
            }
            (Algorithm::SlidingLog { .. }, Stored::Empty) => {
                return Ok(Self::of_log(quota, Times::Whole([].into()), now));
            }
            (Algorithm::SlidingLog { .. }, Stored::Log(times)) => {
                return Ok(Self::of_log(quota, Times::Whole(times), now));
            }
            (Algorithm::SlidingLog { .. }, _) => return Err(Foreign),
        };
        Ok(Self { quota, kind, needs_repair })
    }

    /// The level of a sliding log, of which perhaps only some times are known.
    pub fn of_log(quota: Quota, times: Times, now: Timestamp) -> Self {
        let window_us = crate::time::micros_of(quota.window());
        let (log, needs_repair) = Log::load(quota.capacity(), window_us, times, now);
        Self { quota, kind: Kind::Log(log), needs_repair }
    }

    /// What a call could take at once.
    pub fn available(&self) -> u64 {
        match &self.kind {
            Kind::Bucket(bucket) => bucket.available(),
            Kind::Window(window) => window.available(),
            Kind::Counter(counter) => counter.available(),
            Kind::Log(log) => log.available(),
        }
    }

    /// Takes `cost`, of which there must be enough.
    pub fn take(&mut self, cost: u64) {
        debug_assert!(cost <= self.available());
        match &mut self.kind {
            Kind::Bucket(bucket) => bucket.take(cost),
            Kind::Window(window) => window.take(cost),
            Kind::Counter(counter) => counter.take(cost),
            Kind::Log(log) => log.take(cost),
        }
    }

    /// Undoes what was taken, up to `cost`; never more than was used, and never moving a window.
    pub fn give_back(&mut self, cost: u64) {
        match &mut self.kind {
            Kind::Bucket(bucket) => bucket.give_back(cost),
            Kind::Window(window) => window.give_back(cost),
            Kind::Counter(counter) => counter.give_back(cost),
            Kind::Log(log) => log.give_back(cost),
        }
    }

    /// It can never hold that much.
    pub fn never_fits(&self, ask: Ask) -> bool {
        ask.least() > self.quota.capacity()
    }

    /// When so much would be there. `None`: never, or not known here.
    fn retry_after(&self, cost: u64) -> Option<Duration> {
        if cost > self.quota.capacity() {
            return None;
        }
        match &self.kind {
            Kind::Bucket(bucket) => Some(bucket.retry_after(cost)),
            Kind::Window(window) => Some(window.retry_after(cost)),
            Kind::Counter(counter) => Some(counter.retry_after(cost)),
            Kind::Log(log) => log.retry_after(cost),
        }
    }

    fn reset(&self) -> Duration {
        match &self.kind {
            Kind::Bucket(bucket) => bucket.reset(),
            Kind::Window(window) => window.reset(),
            Kind::Counter(counter) => counter.reset(),
            Kind::Log(log) => log.reset(),
        }
    }

    /// How it stands, for one who still waits for `cost` (0: for nothing).
    pub fn standing(&self, cost: u64) -> Standing {
        Standing {
            limit: self.quota.capacity(),
            remaining: self.available(),
            retry_after: self.retry_after(cost),
            reset: self.reset(),
        }
    }

    /// What is to be stored.
    pub(super) fn into_cell(self, now: Timestamp) -> LimitCell {
        let stored = match self.kind {
            Kind::Bucket(bucket) => bucket.stored().map(|full| (Stored::Bucket(full), full.ends_us())),
            Kind::Window(window) => {
                window.stored().map(|(start, used, ends)| (Stored::Window(start, used), ends))
            }
            Kind::Counter(counter) => counter
                .stored()
                .map(|(start, previous, current, ends)| (Stored::Counter(start, previous, current), ends)),
            Kind::Log(log) => log.into_stored().map(|(times, ends)| (Stored::Log(times), ends)),
        };
        stored.map_or_else(LimitCell::default, |(stored, ends_us)| LimitCell::until(stored, ends_us, now))
    }
}

/// The levels of `quotas` in `cells`.
///
/// # Errors
/// The first cell that holds something that is not ours.
pub(super) fn load_all(
    quotas: &[Quota],
    cells: &[LimitCell],
    now: Timestamp,
) -> Result<Vec<Level>, crate::decision::WrongType> {
    let levels = quotas.iter().zip(cells).enumerate().map(|(index, (quota, cell))| {
        let level = Level::load(*quota, cell.stored.clone(), now);
        let mut level = level.map_err(|Foreign| crate::decision::WrongType { index, side: false })?;
        level.needs_repair |= !cell.is_bounded();
        Ok(level)
    });
    levels.collect()
}

impl LimitCell {
    /// It is empty, or goes by itself.
    fn is_bounded(&self) -> bool {
        self.stored == Stored::Empty || self.expires_ms.is_some()
    }
}
