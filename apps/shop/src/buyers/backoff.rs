//! When to come back: no earlier than told, and not all at once.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use rand::RngExt;
use rand::rngs::SmallRng;

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(2);
/// A wait that was told is never taken for longer than this.
const MAX_TOLD: Duration = Duration::from_secs(24 * 3600);
/// What is added at most to a wait that was told, as a share of it.
const STRETCH: f64 = 0.25;

/// When to come back, as a server told.
pub(super) fn told(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_TOLD))
}

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
    fn a_wait_that_was_told_is_bounded() {
        let told = |text: &'static str| {
            told(&HeaderMap::from_iter([(RETRY_AFTER, http::HeaderValue::from_static(text))]))
        };
        assert_eq!(told("7"), Some(Duration::from_secs(7)));
        assert_eq!(told("18446744073709551615"), Some(MAX_TOLD));
        assert_eq!((told("soon"), told("-1")), (None, None));
    }

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
