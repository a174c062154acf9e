//! What a limit is: an algorithm and its numbers, valid by construction.

use std::time::Duration;

use super::text::Unit;
use crate::error::Error;
use crate::time::micros_of;

/// The largest number of calls, tokens or refills that a limit may count.
pub const MAX_COUNT: u64 = 1_000_000_000_000;
/// The largest number of calls that a sliding log keeps: each is an entry on the server.
pub const MAX_LOG_COUNT: u64 = 10_000;
/// The longest window, and the longest time in which an empty token bucket may take to fill: 100 years.
pub const MAX_WINDOW: Duration = Duration::from_secs(100 * 31_557_600);

pub(super) const OPERATION: &str = "limit";
/// Products in scripts stay below 2^53; this leaves room for a sum of three.
const MAX_PRODUCT: u64 = 1 << 51;

/// A limit: how many, in which time, counted how.
///
/// | constructor | lets through, in any half-open interval as long as the window `W` |
/// |---|---|
/// | [`fixed_window`](Self::fixed_window) | at most 2N |
/// | [`fixed_window_from_first`](Self::fixed_window_from_first) | at most 2N |
/// | [`sliding_counter`](Self::sliding_counter) | at most 2N − 1 |
/// | [`sliding_log`](Self::sliding_log) | at most N |
/// | [`token_bucket`](Self::token_bucket) | at most capacity + floor(refill × interval / period), whatever the interval |
///
/// As text: `100/20s`, `100/20s token-bucket burst=150`, `5/min sliding-log`, `unlimited`, `none` (see
/// [`FromStr`](std::str::FromStr)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Everything passes. Nothing is asked of the store.
    Unlimited,
    /// Nothing passes. Nothing is asked of the store.
    Nothing,
    /// So many in such a time.
    Quota(Quota),
}

/// A limit that counts something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    algorithm: Algorithm,
}

/// How a quota counts. Times are microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are what they say")]
pub enum Algorithm {
    /// `count` per window.
    FixedWindow { count: u64, window_us: u64, from: WindowStart },
    /// `count` in any window; every call is remembered.
    SlidingLog { count: u64, window_us: u64 },
    /// `count` per window, the previous window weighted by what of it still lies within.
    SlidingCounter { count: u64, window_us: u64 },
    /// `capacity` tokens, refilled by `refill` per `period_us`.
    TokenBucket { capacity: u64, refill: u64, period_us: u64 },
}

/// Where a fixed window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowStart {
    /// At whole multiples of its length since 1970-01-01T00:00Z.
    Aligned,
    /// With the first call after the last window.
    FirstCall,
}

/// A token bucket that still lacks its rate.
#[derive(Clone, Copy, Debug)]
#[must_use = "say how it is refilled"]
pub struct TokenBucketBuilder {
    capacity: u64,
}

impl Limit {
    /// `count` calls per window. Windows begin at whole multiples of their length since 1970 (UTC).
    ///
    /// Bound: N per window, so up to 2N within any interval of its length, at the end of one window and the beginning of
    /// the next.
    ///
    /// # Errors
    /// `count` zero or above [`MAX_COUNT`]; `window` zero, above [`MAX_WINDOW`], or not in whole microseconds.
    pub fn fixed_window(count: u64, window: Duration) -> Result<Self, Error> {
        Self::window(count, window, WindowStart::Aligned)
    }

    /// `count` calls per window, which begins with the first call after the last window.
    ///
    /// Bound: as [`fixed_window`](Self::fixed_window), 2N; spread over all callers, because their windows differ. Since the call
    /// that begins a window lies a whole window before the next one, 2N takes a refund of it; else 2N − 1 is the most.
    ///
    /// # Errors
    /// As [`fixed_window`](Self::fixed_window).
    pub fn fixed_window_from_first(count: u64, window: Duration) -> Result<Self, Error> {
        Self::window(count, window, WindowStart::FirstCall)
    }

    fn window(count: u64, window: Duration, from: WindowStart) -> Result<Self, Error> {
        let window_us = window_of(window)?;
        Ok(Self::of(Algorithm::FixedWindow { count: count_of("count", count, MAX_COUNT)?, window_us, from }))
    }

    /// Never more than `count` calls within any interval as long as the window. Remembers every call: some 100 bytes
    /// each on the server.
    ///
    /// # Errors
    /// `count` zero or above [`MAX_LOG_COUNT`]; `window` as [`fixed_window`](Self::fixed_window).
    pub fn sliding_log(count: u64, window: Duration) -> Result<Self, Error> {
        let count = count_of("count of a sliding log", count, MAX_LOG_COUNT)?;
        Ok(Self::of(Algorithm::SlidingLog { count, window_us: window_of(window)? }))
    }

    /// `count` calls per window, where the calls of the previous window count by the share of it that still lies within
    /// the last `window`. As small as a fixed window, and smoother; **not** a strict bound.
    ///
    /// Bound: 2N − 1 within any interval as long as the window, when all calls of one window came at its end.
    ///
    /// # Errors
    /// As [`fixed_window`](Self::fixed_window).
    pub fn sliding_counter(count: u64, window: Duration) -> Result<Self, Error> {
        let count = count_of("count", count, MAX_COUNT)?;
        Ok(Self::of(Algorithm::SlidingCounter { count, window_us: window_of(window)? }))
    }

    /// A bucket of `capacity` tokens, which begins full; say next how it is
    /// [refilled](TokenBucketBuilder::refill). Exact at any rate: what a microsecond does not fill is carried.
    ///
    /// Bound: within any interval `t`, capacity + floor(refill × t / period).
    pub const fn token_bucket(capacity: u64) -> TokenBucketBuilder {
        TokenBucketBuilder { capacity }
    }

    const fn of(algorithm: Algorithm) -> Self {
        Self::Quota(Quota { algorithm })
    }

    /// The quota, if it is one.
    pub const fn quota(self) -> Option<Quota> {
        match self {
            Self::Quota(quota) => Some(quota),
            _ => None,
        }
    }

    /// This limit for one of `instances` that each have their own part of it: every number is divided, and the rest is
    /// cut off. A share of less than one is [`Limit::Nothing`].
    #[must_use]
    pub fn share_of(self, instances: u32) -> Self {
        let instances = u64::from(instances.max(1));
        let Self::Quota(quota) = self else { return self };
        let share = |count: u64| (count / instances > 0).then(|| count / instances);
        let algorithm = match quota.algorithm {
            Algorithm::FixedWindow { count, window_us, from } => {
                share(count).map(|count| Algorithm::FixedWindow { count, window_us, from })
            }
            Algorithm::SlidingLog { count, window_us } => {
                share(count).map(|count| Algorithm::SlidingLog { count, window_us })
            }
            Algorithm::SlidingCounter { count, window_us } => {
                share(count).map(|count| Algorithm::SlidingCounter { count, window_us })
            }
            Algorithm::TokenBucket { capacity, refill, period_us } => {
                slower(share(capacity), refill, period_us, instances)
            }
        };
        algorithm.map_or(Self::Nothing, Self::of)
    }
}

/// A bucket's rate divided by `instances`, exactly where the period can be lengthened, else cut off.
fn slower(capacity: Option<u64>, refill: u64, period_us: u64, instances: u64) -> Option<Algorithm> {
    let capacity = capacity?;
    let longer = period_us.checked_mul(instances).filter(|&period_us| fits(capacity, refill, period_us));
    let (refill, period_us) = longer.map_or((refill / instances, period_us), |period_us| (refill, period_us));
    let is_quota = refill > 0 && fits(capacity, refill, period_us);
    is_quota.then_some(Algorithm::TokenBucket { capacity, refill, period_us })
}

impl TokenBucketBuilder {
    /// Adds `refill` tokens per `period`, evenly, up to the capacity.
    ///
    /// # Errors
    /// Capacity or refill zero or above [`MAX_COUNT`]; `period` as in [`Limit::fixed_window`]; it would take longer than
    /// [`MAX_WINDOW`] to fill.
    pub fn refill(self, refill: u64, period: Duration) -> Result<Limit, Error> {
        let capacity = count_of("capacity", self.capacity, MAX_COUNT)?;
        let refill = count_of("refill", refill, MAX_COUNT)?;
        let period_us = window_of(period)?;
        if !fits(capacity, refill, period_us) {
            let detail = format!(
                "a bucket of {capacity} that gets {refill} per {period:?} would take longer than 100 years to fill"
            );
            return Err(Error::bad_argument(OPERATION, detail));
        }
        Ok(Limit::of(Algorithm::TokenBucket { capacity, refill, period_us }))
    }
}

fn fits(capacity: u64, refill: u64, period_us: u64) -> bool {
    let fills_in = u128::from(capacity) * u128::from(period_us) / u128::from(refill);
    fills_in <= MAX_WINDOW.as_micros() && period_us <= micros_of(MAX_WINDOW)
}

impl Quota {
    /// How it counts.
    #[inline]
    pub const fn algorithm(self) -> Algorithm {
        self.algorithm
    }

    /// The most that can ever be taken at once: the count, or the bucket's capacity.
    pub const fn capacity(self) -> u64 {
        match self.algorithm {
            Algorithm::FixedWindow { count, .. }
            | Algorithm::SlidingLog { count, .. }
            | Algorithm::SlidingCounter { count, .. } => count,
            Algorithm::TokenBucket { capacity, .. } => capacity,
        }
    }

    /// The window; for a token bucket the time in which an empty one fills, rounded up.
    pub fn window(self) -> Duration {
        Duration::from_micros(match self.algorithm {
            Algorithm::FixedWindow { window_us, .. }
            | Algorithm::SlidingLog { window_us, .. }
            | Algorithm::SlidingCounter { window_us, .. } => window_us,
            Algorithm::TokenBucket { capacity, refill, period_us } => {
                let fills_in = (u128::from(capacity) * u128::from(period_us)).div_ceil(u128::from(refill));
                u64::try_from(fills_in).unwrap_or(u64::MAX)
            }
        })
    }

    /// What a sliding counter counts time in, in microseconds: one, unless count × window would be too large for
    /// exact products. And the window in it, rounded up.
    pub fn counter_unit(count: u64, window_us: u64) -> (u64, u64) {
        let product = u128::from(count) * u128::from(window_us);
        let unit = u64::try_from(product.div_ceil(u128::from(MAX_PRODUCT))).unwrap_or(u64::MAX).max(1);
        (unit, window_us.div_ceil(unit))
    }

    /// A letter for the algorithm and the format of its state, and eighteen bits of its numbers' digest: part of the key's
    /// name. So that a changed limit begins afresh, and another algorithm never meets a state that is not its own.
    pub fn tag(self) -> [u8; 4] {
        // What is stored is in its first format; a second one gets other letters.
        let (kind, numbers) = match self.algorithm {
            Algorithm::FixedWindow { count, window_us, from: WindowStart::Aligned } => {
                (b'w', [count, window_us, 0])
            }
            Algorithm::FixedWindow { count, window_us, from: WindowStart::FirstCall } => {
                (b'f', [count, window_us, 0])
            }
            Algorithm::SlidingLog { count, window_us } => (b'l', [count, window_us, 0]),
            Algorithm::SlidingCounter { count, window_us } => (b'c', [count, window_us, 0]),
            Algorithm::TokenBucket { capacity, refill, period_us } => (b't', [capacity, refill, period_us]),
        };
        let bytes = sha1_smol::Sha1::from(numbers.map(u64::to_be_bytes).concat()).digest().bytes();
        let sextet = |value: u8| SEXTETS[usize::from(value & 63)];
        [kind, sextet(bytes[0]), sextet(bytes[1]), sextet(bytes[2])]
    }
}

const SEXTETS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn count_of(what: &str, count: u64, most: u64) -> Result<u64, Error> {
    match count {
        0 => {
            let detail =
                format!("the {what} is 0; to let nothing pass, say so: `Limit::Nothing` (`none` as text)");
            Err(Error::bad_argument(OPERATION, detail))
        }
        _ if count > most => {
            Err(Error::bad_argument(OPERATION, format!("the {what} is {count}; at most {most}")))
        }
        _ => Ok(count),
    }
}

fn window_of(window: Duration) -> Result<u64, Error> {
    let shown = Unit::show(window);
    let detail = match window {
        Duration::ZERO => "the window is 0; at least 1µs".to_owned(),
        _ if window > MAX_WINDOW => format!("the window is {shown}; at most 100 years"),
        _ if !window.subsec_nanos().is_multiple_of(1000) => {
            format!("the window is {window:?}; it must be whole microseconds")
        }
        _ => return Ok(micros_of(window)),
    };
    Err(Error::bad_argument(OPERATION, detail))
}
