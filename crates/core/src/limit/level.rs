//! A quota at a moment, whatever its algorithm: what is there, what a call takes, when more comes.

use std::time::Duration;

use smallvec::SmallVec;

use super::bucket::Bucket;
use super::cell::{LimitCell, Stored};
use super::counter::Counter;
use super::evaluate::Holds;
use super::log::{Log, Times};
use super::quota::{Algorithm, Quota};
use super::standing::Standing;
use super::window::Window;
use crate::decision::WrongType;
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
    /// A clock that was set back finds stored times that are ahead of it. Up to the quota's own length they are taken as they
    /// are: a little ahead is what a small correction leaves, and to move a window back would let it come again. What is
    /// further ahead can come from no call that this clock still remembers. It is *brought near*: what was used stays
    /// used, as of now, and the next check writes it so. Hence:
    ///
    /// * *How long somebody is refused.* A token bucket: for as long as it takes to fill, since only an empty one is that
    ///   far ahead. Windows and the log: for two windows at most. A sliding counter: for three, because its own length
    ///   is two.
    /// * *What it can be used for.* Bringing near never makes more available at the same moment: a bucket is empty
    ///   before and after, the others keep their count. What makes more available is only the clock's forward movement,
    ///   and whoever can set that clock forward needs nothing else. So within any forward movement `t` of the clock (real time,
    ///   and what it was set forward) a bucket, a log, and a window from the first call let through what they promise
    ///   for an interval `t`, however often the clock was set back. Windows that are aligned to the clock come
    ///   again when it goes back over their beginning: a fixed window may let through N more for each setting back, a
    ///   sliding counter N more for each time it was brought near.
    /// * *Flapping.* A clock that goes back and forth by more than the quota's length brings near in one direction and counts as
    ///   time in the other: one capacity for each turn. Not to bring near would save that, and refuse everybody for an
    ///   hour after one correction by an hour.
    ///
    /// # Errors
    /// What is stored is not of this algorithm.
    pub fn load(quota: Quota, stored: Stored, now: Timestamp) -> Result<Self, Foreign> {
        if !stored.is_of(quota) {
            return Err(Foreign);
        }
        let (kind, needs_repair) = match (quota.algorithm(), stored) {
            (Algorithm::TokenBucket { capacity, refill, period_us }, stored) => {
                let stored = if let Stored::Bucket(full) = stored { Some(full) } else { None };
                let (bucket, is_faulty) = Bucket::load(capacity, refill, period_us, stored, now);
                (Kind::Bucket(bucket), is_faulty)
            }
            (Algorithm::FixedWindow { count, window_us, from }, stored) => {
                let stored =
                    if let Stored::Window(start_us, used) = stored { Some((start_us, used)) } else { None };
                let (window, is_faulty) = Window::load(count, window_us, from, stored, now);
                (Kind::Window(window), is_faulty)
            }
            (Algorithm::SlidingCounter { count, window_us }, stored) => {
                let stored = match stored {
                    Stored::Counter(start_us, previous, current) => Some((start_us, previous, current)),
                    _ => None,
                };
                let (counter, is_faulty) = Counter::load(count, window_us, stored, now);
                (Kind::Counter(counter), is_faulty)
            }
            (Algorithm::SlidingLog { .. }, Stored::Log(times)) => {
                return Ok(Self::of_log(quota, Times::Whole(times), now));
            }
            (Algorithm::SlidingLog { .. }, _) => {
                return Ok(Self::of_log(quota, Times::Whole([].into()), now));
            }
        };
        Ok(Self { quota, kind, needs_repair })
    }

    /// The level of a sliding log, of which perhaps only some times are known.
    pub fn of_log(quota: Quota, times: Times, now: Timestamp) -> Self {
        let window_us = crate::time::micros_of(quota.window());
        let (log, needs_repair) = Log::load(quota.capacity(), window_us, times, now);
        Self { quota, kind: Kind::Log(log), needs_repair }
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

    fn reset(&self) -> Duration {
        match &self.kind {
            Kind::Bucket(bucket) => bucket.reset(),
            Kind::Window(window) => window.reset(),
            Kind::Counter(counter) => counter.reset(),
            Kind::Log(log) => log.reset(),
        }
    }

    /// The level in `cell`, out of which a log is taken for as long.
    pub(super) fn open(quota: Quota, cell: &mut LimitCell, now: Timestamp) -> Result<Self, Foreign> {
        let is_bounded = cell.is_bounded();
        let stored = match &mut cell.stored {
            stored if !stored.is_of(quota) => return Err(Foreign),
            Stored::Log(times) => Stored::Log(std::mem::take(times)),
            stored => stored.clone(),
        };
        let mut level = Self::load(quota, stored, now)?;
        level.needs_repair |= !is_bounded;
        Ok(level)
    }

    /// Puts back what was [opened](Self::open): as it was (a log without what has left the window), unless something was
    /// taken or has to be repaired.
    pub(super) fn close(self, cell: &mut LimitCell, has_taken: bool, now: Timestamp) {
        if has_taken || self.needs_repair {
            *cell = self.into_cell(now);
        } else if matches!(self.kind, Kind::Log(_)) {
            // Its expiry stays, also where another limit wrote it.
            let kept = self.into_cell(now);
            let expires_ms = if kept.stored == Stored::Empty { None } else { cell.expires_ms };
            *cell = LimitCell { expires_ms, ..kept };
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

impl Holds for Level {
    fn capacity(&self) -> u64 {
        self.quota.capacity()
    }

    fn available(&self) -> u64 {
        match &self.kind {
            Kind::Bucket(bucket) => bucket.available(),
            Kind::Window(window) => window.available(),
            Kind::Counter(counter) => counter.available(),
            Kind::Log(log) => log.available(),
        }
    }

    fn has(&self, cost: u64) -> bool {
        match &self.kind {
            Kind::Bucket(bucket) => bucket.has(cost),
            Kind::Window(window) => cost <= window.available(),
            Kind::Counter(counter) => counter.has(cost),
            Kind::Log(log) => cost <= log.available(),
        }
    }

    fn take(&mut self, cost: u64) {
        debug_assert!(self.has(cost));
        match &mut self.kind {
            Kind::Bucket(bucket) => bucket.take(cost),
            Kind::Window(window) => window.take(cost),
            Kind::Counter(counter) => counter.take(cost),
            Kind::Log(log) => log.take(cost),
        }
    }

    fn retry_after(&self, cost: u64) -> Option<Duration> {
        if cost > self.quota.capacity() {
            return None;
        }
        match &self.kind {
            Kind::Bucket(bucket) => bucket.retry_after(cost),
            Kind::Window(window) => Some(window.retry_after(cost)),
            Kind::Counter(counter) => Some(counter.retry_after(cost)),
            Kind::Log(log) => log.retry_after(cost),
        }
    }

    fn standing(&self, cost: u64) -> Standing {
        Standing {
            limit: self.capacity(),
            remaining: self.available(),
            retry_after: self.retry_after(cost),
            reset: self.reset(),
        }
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
) -> Result<Vec<Level>, WrongType> {
    let levels = quotas.iter().zip(cells).enumerate().map(|(index, (quota, cell))| {
        let level = Level::load(*quota, cell.stored.clone(), now);
        let mut level = level.map_err(|Foreign| WrongType { index, side: false })?;
        level.needs_repair |= !cell.is_bounded();
        Ok(level)
    });
    levels.collect()
}

/// The levels of `quotas` in `cells`, opened; none of them where one cell holds something that is not ours.
pub(super) fn open_all(
    quotas: &[Quota],
    cells: &mut [LimitCell],
    now: Timestamp,
) -> Result<SmallVec<[Level; 1]>, WrongType> {
    let foreign = quotas.iter().zip(&*cells).position(|(quota, cell)| !cell.stored.is_of(*quota));
    if let Some(index) = foreign {
        return Err(WrongType { index, side: false });
    }
    let levels = quotas.iter().zip(cells).enumerate().map(|(index, (quota, cell))| {
        Level::open(*quota, cell, now).map_err(|Foreign| WrongType { index, side: false })
    });
    levels.collect()
}

impl LimitCell {
    /// It is empty, or goes by itself.
    #[inline]
    pub(super) fn is_bounded(&self) -> bool {
        self.stored == Stored::Empty || self.expires_ms.is_some()
    }
}
