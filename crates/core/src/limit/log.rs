//! The sliding log: when each call was.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Timestamp;

/// A log at a moment; what has left the window is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    count: u64,
    window_us: u64,
    now_us: u64,
    /// When a call of now is put down: never before the newest one.
    stamp_us: u64,
    /// How many there are, those taken since included.
    used: u64,
    times: Times,
}

/// When the calls were, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Times {
    /// All of them.
    Whole(VecDeque<u64>),
    /// How many, when the newest was, and of some others, by rank.
    Seen {
        /// How many.
        used: u64,
        /// The newest, if there is one.
        newest_us: Option<u64>,
        /// Rank (from 0) and time.
        ranks: Vec<(u64, u64)>,
    },
}

impl Times {
    fn len(&self) -> u64 {
        match self {
            Self::Whole(times) => times.len() as u64,
            Self::Seen { used, .. } => *used,
        }
    }

    fn newest(&self) -> Option<u64> {
        match self {
            Self::Whole(times) => times.back().copied(),
            Self::Seen { newest_us, .. } => *newest_us,
        }
    }

    fn at(&self, rank: u64) -> Option<u64> {
        match self {
            Self::Whole(times) => times.get(usize::try_from(rank).ok()?).copied(),
            Self::Seen { ranks, .. } => ranks.iter().find(|(known, _)| *known == rank).map(|(_, time)| *time),
        }
    }
}

impl Log {
    pub(super) fn load(count: u64, window_us: u64, mut times: Times, now: Timestamp) -> (Self, bool) {
        let now_us = now.as_micros();
        let mut is_faulty = false;
        if let Times::Whole(times) = &mut times {
            // A call leaves the window exactly one window after it was.
            while times.front().is_some_and(|time| time.saturating_add(window_us) <= now_us) {
                times.pop_front();
            }
            // More than a window ahead: the clock was set back. All count from now.
            is_faulty = times.back().is_some_and(|newest| *newest > now_us + window_us);
            if is_faulty {
                times.iter_mut().for_each(|time| *time = now_us);
            }
        }
        let stamp_us = times.newest().map_or(now_us, |newest| newest.max(now_us));
        (Self { count, window_us, now_us, stamp_us, used: times.len(), times }, is_faulty)
    }

    pub(super) fn available(&self) -> u64 {
        self.count.saturating_sub(self.used)
    }

    pub(super) fn take(&mut self, cost: u64) {
        self.used += cost;
        if let Times::Whole(times) = &mut self.times {
            times.extend((0..cost).map(|_| self.stamp_us));
        }
    }

    /// The newest go.
    pub(super) fn give_back(&mut self, cost: u64) {
        self.used = self.used.saturating_sub(cost);
        if let Times::Whole(times) = &mut self.times {
            times.truncate(usize::try_from(self.used).unwrap_or(usize::MAX));
        }
    }

    /// `None`: the entry that has to leave is not known here (only where not all of them are).
    pub(super) fn retry_after(&self, cost: u64) -> Option<Duration> {
        if cost <= self.available() {
            return Some(Duration::ZERO);
        }
        let leaves_us = self.time_of(self.used + cost - self.count - 1)? + self.window_us;
        Some(Duration::from_micros(leaves_us.saturating_sub(self.now_us)))
    }

    fn time_of(&self, rank: u64) -> Option<u64> {
        match self.times {
            Times::Seen { used, .. } if rank >= used => Some(self.stamp_us),
            _ => self.times.at(rank),
        }
    }

    pub(super) fn reset(&self) -> Duration {
        let newest_us = match &self.times {
            Times::Whole(times) => times.back().copied().unwrap_or(0),
            Times::Seen { used, newest_us, .. } if self.used <= *used => newest_us.unwrap_or(0),
            Times::Seen { .. } => self.stamp_us,
        };
        match self.used {
            0 => Duration::ZERO,
            _ => Duration::from_micros((newest_us + self.window_us).saturating_sub(self.now_us)),
        }
    }

    /// The calls, and when they may be forgotten. `None`: there are none.
    pub(super) fn into_stored(self) -> Option<(VecDeque<u64>, u64)> {
        match self.times {
            Times::Whole(times) => times.back().copied().map(|newest| (times, newest + self.window_us)),
            Times::Seen { .. } => None,
        }
    }
}
