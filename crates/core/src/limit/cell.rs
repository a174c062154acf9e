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

/// Numbers in a stored text are below it: those that a script counts to exactly, and tells from their neighbours.
const TOO_LARGE: u64 = 1 << 53;
/// The most digits of such a number.
const MAX_DIGITS: usize = 16;

impl Stored {
    /// Reads what a server keeps for `algorithm`: decimal numbers with `:` between them, as the scripts read them.
    /// `None`: not ours. A sliding log is no text.
    pub fn parse(algorithm: Algorithm, text: &[u8]) -> Option<Self> {
        let mut parts = text.split(|byte| *byte == b':').map(number);
        let numbers = (parts.next()?, parts.next(), parts.next(), parts.next());
        match (algorithm, numbers) {
            (Algorithm::TokenBucket { .. }, (at_us, part, None, None)) => {
                Some(Self::Bucket(FullAt { at_us: at_us?, part: part.unwrap_or(Some(0))? }))
            }
            (Algorithm::FixedWindow { .. }, (start_us, Some(used), None, None)) => {
                Some(Self::Window(start_us?, used?))
            }
            (Algorithm::SlidingCounter { .. }, (start_us, Some(previous), Some(current), None)) => {
                Some(Self::Counter(start_us?, previous?, current?))
            }
            _ => None,
        }
    }

    /// The text that [`parse`](Self::parse) reads. `None`: it is nothing, or no text.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Bucket(FullAt { at_us, part: 0 }) => Some(at_us.to_string()),
            Self::Bucket(FullAt { at_us, part }) => Some(format!("{at_us}:{part}")),
            Self::Window(start_us, used) => Some(format!("{start_us}:{used}")),
            Self::Counter(start_us, previous, current) => Some(format!("{start_us}:{previous}:{current}")),
            Self::Empty | Self::Log(_) | Self::Foreign => None,
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if !(1..=MAX_DIGITS).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    (number < TOO_LARGE).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::super::WindowStart;
    use super::*;

    const BUCKET: Algorithm = Algorithm::TokenBucket { capacity: 1, refill: 7, period_us: 1 };
    const WINDOW: Algorithm = Algorithm::FixedWindow { count: 1, window_us: 1, from: WindowStart::Aligned };
    const COUNTER: Algorithm = Algorithm::SlidingCounter { count: 1, window_us: 1 };
    const LOG: Algorithm = Algorithm::SlidingLog { count: 1, window_us: 1 };

    #[test]
    fn texts_are_read_as_they_are_written() {
        for (algorithm, stored, text) in [
            (BUCKET, Stored::Bucket(FullAt { at_us: 1_767_225_600_000_000, part: 0 }), "1767225600000000"),
            (BUCKET, Stored::Bucket(FullAt { at_us: 17, part: 6 }), "17:6"),
            (WINDOW, Stored::Window(0, 9_007_199_254_740_991), "0:9007199254740991"),
            (COUNTER, Stored::Counter(60, 0, 4), "60:0:4"),
        ] {
            assert_eq!(stored.text().as_deref(), Some(text));
            assert_eq!(Stored::parse(algorithm, text.as_bytes()), Some(stored));
        }
        assert_eq!(Stored::parse(BUCKET, b"007:0"), Some(Stored::Bucket(FullAt { at_us: 7, part: 0 })));
        assert_eq!(Stored::Log([1].into()).text(), None);
    }

    #[test]
    fn what_no_script_writes_is_not_ours() {
        let strange =
            ["", ":", "x", "+1", "-1", "1e9", " 1", "1.5", "1:", ":1", "1::1", "1\n", "0x1", "\u{661}"];
        let large = ["9007199254740992", "9007199254740993", "00000000000000001", "99999999999999999999"];
        for text in strange.into_iter().chain(large) {
            for algorithm in [BUCKET, WINDOW, COUNTER, LOG] {
                assert_eq!(Stored::parse(algorithm, text.as_bytes()), None, "{text:?} {algorithm:?}");
                let text = format!("1:{text}");
                assert_eq!(Stored::parse(algorithm, text.as_bytes()), None, "{text:?} {algorithm:?}");
            }
        }
        for (algorithm, text) in [
            (BUCKET, "1:2:3"),
            (WINDOW, "1"),
            (WINDOW, "1:2:3"),
            (COUNTER, "1:2"),
            (COUNTER, "1:2:3:4"),
            (LOG, "1"),
        ] {
            assert_eq!(Stored::parse(algorithm, text.as_bytes()), None, "{text} {algorithm:?}");
        }
    }
}
