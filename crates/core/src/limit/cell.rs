//! What a store keeps for one limit of one subject.

use std::collections::VecDeque;

use super::bucket::FullAt;
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

    fn expire(&mut self, now: Timestamp) {
        if self.expires_ms.is_some_and(|at| now.as_millis() > at) {
            *self = Self::default();
        }
    }

    fn is_empty(&self) -> bool {
        self.stored == Stored::Empty
    }
}

impl LimitCell {
    /// `stored` until `ends_us`: rounded up, and for a millisecond at least.
    pub(super) fn until(stored: Stored, ends_us: u64, now: Timestamp) -> Self {
        let expires_ms = ends_us.div_ceil(1000).max(now.as_millis() + 1);
        Self { stored, expires_ms: Some(expires_ms) }
    }
}
