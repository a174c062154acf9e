//! Fencing tokens: numbers that grow with every acquisition, so that a resource can refuse a late writer.

use std::fmt;
use std::time::Duration;

use crate::time::{Timestamp, micros_of};

/// How long the side key outlives the lease. Afterwards a fence grows because the server's clock does.
pub const FENCE_RETENTION: Duration = Duration::from_secs(2 * 24 * 3600);
/// How far ahead of the server's clock a client's memory may push a fence.
pub const FENCE_LEAD: Duration = Duration::from_secs(60);
/// The largest fence: below 2^53, which the scripts count in. Reached in the year 2255.
pub const FENCE_MAX: u64 = 9_007_199_254_700_000;
/// The most numbers that one grant may reserve.
pub const MAX_FENCE_BLOCK: u32 = 4096;

/// A fencing token: a hybrid logical clock in microseconds.
///
/// Every acquisition of a key gets a greater one than all before it, as long as the key's side key lives; after
/// its loss (eviction, a failover that lost writes), as long as the server's clock is not behind by more than
/// the time since the last acquisition. It orders *fenced* writers only: the resource must refuse a write whose
/// fence is smaller than the greatest it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// What a store answers that cannot fence. A guard never shows it, and no real fence is as small.
    pub const NONE: Self = Self(0);

    /// It is [`NONE`](Self::NONE).
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// From its number, for a resource that stored one.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number, to be stored with the data.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an acquisition says about fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceRequest {
    /// The highest fence that this client has seen; zero if none. Heals a server that lost its side key.
    pub seen: u64,
    /// How many consecutive numbers to reserve, at least one; the grant names the first.
    pub block: u32,
}

impl Default for FenceRequest {
    fn default() -> Self {
        Self { seen: 0, block: 1 }
    }
}

impl FenceRequest {
    /// How many numbers: at least one, at most [`MAX_FENCE_BLOCK`].
    pub fn size(self) -> u64 {
        u64::from(self.block.clamp(1, MAX_FENCE_BLOCK))
    }

    /// `max(previous + 1, now in µs, min(seen + 1, now + 60 s))`, the first number of the block, and the last.
    pub(crate) fn next(self, previous: u64, now: Timestamp) -> (Fence, u64) {
        let now_us = now.as_micros();
        let seen = self.seen.saturating_add(1).min(now_us.saturating_add(micros_of(FENCE_LEAD)));
        let first = (previous + 1).max(now_us).max(seen);
        (Fence(first), first + self.size() - 1)
    }

    /// The stored number can be the last of such a block; else the side key was lost or replaced meanwhile.
    pub(crate) fn fits(self, last: u64) -> bool {
        last >= self.size()
    }

    /// The first number of the block whose last one is stored.
    pub(crate) fn first_of(self, last: u64) -> Fence {
        Fence(last.saturating_sub(self.size() - 1))
    }
}

/// Reads a stored fence; `None` if it is not one of ours.
pub fn parse_fence(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.len() <= 16 && value.iter().all(u8::is_ascii_digit);
    let number: u64 = digits.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()?;
    (number <= FENCE_MAX).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_fences_are_decimal_and_bounded() {
        assert_eq!(parse_fence(b"9007199254700000"), Some(FENCE_MAX));
        for bad in [&b""[..], b"9007199254700001", b"-1", b"1e9", b" 1", b"00000000000000001"] {
            assert_eq!(parse_fence(bad), None);
        }
    }

    #[test]
    fn a_client_that_saw_far_ahead_pushes_no_further_than_a_minute() {
        let now = Timestamp::from_micros(1_000_000_000);
        let (first, _) = FenceRequest { seen: u64::MAX, block: 1 }.next(0, now);
        assert_eq!(first.get(), 1_060_000_000);
    }
}
