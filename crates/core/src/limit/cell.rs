//! What a store keeps for one limit of one subject.

use std::collections::VecDeque;

use super::bucket::FullAt;
use super::quota::{Algorithm, Quota};
use crate::decision::State;
use crate::time::Timestamp;

/// The key of one limit of one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitCell {
    /// What it holds.
    pub stored: Stored,
    /// When it goes, in milliseconds of the server's clock. `None` where somebody took the expiry away: the next
    /// decision repairs it.
    pub expires_ms: Option<u64>,
}

/// What a key holds. On a server a short decimal text; for the log a sorted set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stored {
    /// Nothing: nothing is used.
    #[default]
    Empty,
    /// Token bucket: `at_us` or `at_us:part`.
    Bucket(FullAt),
    /// Fixed window: `start_us:used`.
    Window(u64, u64),
    /// Sliding counter: `start_us:previous:current`.
    Counter(u64, u64, u64),
    /// Sliding log: when each call was, in microseconds, oldest first.
    Log(VecDeque<u64>),
    /// Something that is not ours.
    Foreign,
}

impl State for LimitCell {
    const NOUN: &'static str = "a limit's state";

    #[inline]
    fn expire(&mut self, now: Timestamp) {
        if self.expires_ms.is_some_and(|at| now.as_millis() > at) {
            *self = Self::default();
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.stored == Stored::Empty
    }
}

impl Stored {
    /// A limiter of this quota may have written it. A bucket's part is below one, so one that is not was written by
    /// somebody else.
    pub(super) fn is_of(&self, quota: Quota) -> bool {
        match (quota.algorithm(), self) {
            (Algorithm::TokenBucket { refill, .. }, Self::Bucket(full)) => full.part < refill,
            (_, Self::Empty)
            | (Algorithm::FixedWindow { .. }, Self::Window(..))
            | (Algorithm::SlidingCounter { .. }, Self::Counter(..))
            | (Algorithm::SlidingLog { .. }, Self::Log(_)) => true,
            _ => false,
        }
    }
}

impl LimitCell {
    /// What is kept of a bucket.
    #[inline]
    pub(super) fn of_bucket(full: Option<FullAt>, now: Timestamp) -> Self {
        full.map_or_else(Self::default, |full| Self::until(Stored::Bucket(full), full.ends_us(), now))
    }

    /// `stored` until `ends_us`: rounded up, and for a millisecond at least.
    #[inline]
    pub(super) fn until(stored: Stored, ends_us: u64, now: Timestamp) -> Self {
        let expires_ms = ends_us.div_ceil(1000).max(now.as_millis() + 1);
        Self { stored, expires_ms: Some(expires_ms) }
    }
}
