//! When to come back: no earlier than told, and not all at once.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(2);
/// What is added at most to a wait that was told, as a share of it.
const STRETCH: f64 = 0.25;

/// The pause before try number `tried` + 1: what the server told, and up to a quarter more; or anything up to a bound that
/// doubles with each try.
pub(super) fn pause(told: Option<Duration>, tried: u32, random: &mut SmallRng) -> Duration {
    match told {
        Some(told) => told.mul_f64(1.0 + random.random_range(0.0..STRETCH)),
        None => {
            let most = FIRST.saturating_mul(1 << tried.min(16)).min(LONGEST);
            most.mul_f64(random.random_range(0.0..1.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_pause_is_never_shorter_than_told_and_never_endless() {
        let mut random = SmallRng::seed_from_u64(7);
        let told = Duration::from_secs(3);
        for tried in 0..1000 {
            assert!((told..=told.mul_f64(1.0 + STRETCH)).contains(&pause(Some(told), tried, &mut random)));
            assert!(pause(None, tried, &mut random) <= LONGEST);
        }
    }
}
