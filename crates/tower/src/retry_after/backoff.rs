//! How long to wait, with what randomness.
//!
//! After a hint: the hint, and some more. Without one: full jitter below a limit that doubles.

use std::time::Duration;

use rand::{Rng, RngExt};

/// How waits are spread; part of [`RetryPolicy`](super::RetryPolicy), which checks it.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    pub(crate) min_wait: Duration,
    pub(crate) jitter: f64,
    pub(crate) min_jitter: Duration,
    pub(crate) backoff_base: Duration,
    pub(crate) backoff_cap: Duration,
}

impl Waits {
    /// From the hint upwards, never below it.
    pub(crate) fn after_hint(&self, told: Duration, rng: &mut impl Rng) -> Duration {
        let spread = between(Duration::ZERO, self.widest_spread(told), rng);
        told.max(self.min_wait).saturating_add(spread)
    }

    /// The most that comes on top of a wait of `told`, so that those who were told the same do not come together.
    fn widest_spread(&self, told: Duration) -> Duration {
        told.max(self.min_wait).mul_f64(self.jitter).max(self.min_jitter)
    }

    /// What comes on top for one who joins those who wait for the end of a hold, and has `room` for it.
    pub(crate) fn after_hold(&self, told: Duration, room: Duration, rng: &mut impl Rng) -> Duration {
        between(Duration::ZERO, self.widest_spread(told).min(room), rng)
    }

    /// Anything up to `base × 2^retry`, or the cap. The first retry is number zero.
    pub(crate) fn without_hint(&self, retry: u32, rng: &mut impl Rng) -> Duration {
        let doubled = self.backoff_base.saturating_mul(2_u32.saturating_pow(retry));
        between(Duration::ZERO, doubled.min(self.backoff_cap), rng)
    }
}

fn between(least: Duration, most: Duration, rng: &mut impl Rng) -> Duration {
    rng.random_range(least..=most)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;
    use crate::retry_after::RetryPolicy;

    const DRAWS: usize = 2_000;

    fn draws(mut draw: impl FnMut(&Waits, &mut SmallRng) -> Duration) -> (Duration, Duration) {
        let (policy, mut rng) = (RetryPolicy::default(), SmallRng::seed_from_u64(7));
        let drawn: Vec<Duration> = (0..DRAWS).map(|_| draw(&policy.waits, &mut rng)).collect();
        (*drawn.iter().min().unwrap(), *drawn.iter().max().unwrap())
    }

    #[test]
    fn r166_r167_jitter_goes_upwards_and_spreads_at_least_a_tenth() {
        let told = Duration::from_secs(600);
        let (least, most) = draws(|waits, rng| waits.after_hint(told, rng));
        assert!(least >= told, "{least:?}");
        assert!(most <= told.mul_f64(1.25), "{most:?}");
        assert!(most - least >= told / 10, "{least:?} to {most:?}");
    }

    #[test]
    fn r100_nothing_to_wait_is_a_small_wait_with_jitter() {
        let (least, most) = draws(|waits, rng| waits.after_hint(Duration::ZERO, rng));
        assert!(least >= Duration::from_millis(100), "{least:?}");
        assert!(most <= Duration::from_millis(200), "{most:?}");
        assert!(most - least > Duration::from_millis(50), "{least:?} to {most:?}");
    }

    #[test]
    fn back_off_has_full_jitter_below_a_doubling_limit() {
        for (retry, limit) in
            [(0, 100), (1, 200), (3, 800), (6, 6_400), (7, 10_000), (40, 10_000), (u32::MAX, 10_000)]
        {
            let limit = Duration::from_millis(limit);
            let (least, most) = draws(|waits, rng| waits.without_hint(retry, rng));
            assert!(least < limit / 20, "{least:?}");
            assert!(most <= limit && most > limit.mul_f64(0.95), "{most:?}");
        }
    }
}
