//! What can be made, what it is called, and its shares.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::support::*;
use crate::limit::bucket::FullAt;
use crate::limit::*;

fn all(count: u64, window: Duration) -> [Result<Limit, crate::Error>; 5] {
    [
        Limit::fixed_window(count, window),
        Limit::fixed_window_from_first(count, window),
        Limit::sliding_log(count, window),
        Limit::sliding_counter(count, window),
        Limit::token_bucket(count).refill(count, window),
    ]
}

#[test]
fn windows_go_from_a_microsecond_to_a_hundred_years() {
    for window in [Duration::from_micros(1), MAX_WINDOW] {
        for limit in all(1, window) {
            let mut subject = Limited::new(limit);
            assert_eq!((subject.quota.window(), subject.calls(3)), (window, 1));
            let wait = subject.standing().retry_after.unwrap();
            subject.wait(wait);
            assert_eq!(subject.take(1), 1, "{:?}", subject.quota);
        }
    }
    for (window, why) in [
        (Duration::ZERO, "is 0"),
        (Duration::from_nanos(1), "whole microseconds"),
        (Duration::from_nanos(1_001), "whole microseconds"),
        (MAX_WINDOW + Duration::from_micros(1), "at most 100 years"),
        (Duration::MAX, "at most 100 years"),
    ] {
        for limit in all(1, window) {
            let error = limit.unwrap_err().to_string();
            assert!(error.contains(why), "{window:?}: {error}");
        }
    }
}

#[test]
fn r59_counts_go_from_one_to_a_million_million() {
    for count in [0, MAX_COUNT + 1, u64::MAX] {
        for limit in all(count, Duration::from_secs(1)) {
            let error = limit.unwrap_err().to_string();
            assert!(error.contains(&count.to_string()), "{error}");
        }
    }
    for limit in all(MAX_COUNT, Duration::from_secs(1)) {
        // All but the log, whose bound is lower.
        let Ok(limit) = limit else { continue };
        let mut subject = Limited::new(Ok(limit));
        assert_eq!((subject.take(MAX_COUNT), subject.take(1)), (MAX_COUNT, 0));
        let wait = subject.check(Ask::whole(MAX_COUNT)).standings[0].retry_after.unwrap();
        subject.wait(wait);
        assert_eq!(subject.take(MAX_COUNT), MAX_COUNT);
    }
    assert_eq!((Limit::Unlimited.quota(), Limit::Nothing.quota()), (None, None));
}

#[test]
fn the_largest_of_everything_does_not_overflow() {
    for limit in [
        Limit::fixed_window(MAX_COUNT, MAX_WINDOW),
        Limit::fixed_window_from_first(MAX_COUNT, MAX_WINDOW),
        Limit::sliding_counter(MAX_COUNT, MAX_WINDOW),
        Limit::sliding_log(MAX_LOG_COUNT, MAX_WINDOW),
        Limit::token_bucket(MAX_COUNT).refill(MAX_COUNT, MAX_WINDOW),
        Limit::token_bucket(MAX_COUNT).refill(MAX_COUNT, Duration::from_micros(1)),
        Limit::token_bucket(1).refill(MAX_COUNT, MAX_WINDOW),
    ] {
        let mut subject = Limited::new(limit);
        let capacity = subject.capacity();
        assert_eq!((subject.take(capacity), subject.take(1)), (capacity, 0));
        let wait = subject.check(Ask::whole(capacity)).standings[0].retry_after.unwrap();
        subject.wait(wait);
        assert_eq!(subject.take(capacity), capacity, "{:?}", subject.quota);
        assert!(subject.cell.expires_ms.unwrap() < 1 << 53);
    }
    let slow = Limit::token_bucket(MAX_COUNT).refill(1, Duration::from_secs(1)).unwrap_err().to_string();
    assert!(slow.contains("longer than 100 years to fill"), "{slow}");
    // A million per hour, idle for ten years.
    let mut subject = Limited::of("1000000/h");
    subject.take(1_000_000);
    subject.pass(10 * 365 * 86_400 * SECOND);
    assert_eq!(subject.calls(1), 1);
    assert_eq!(subject.remaining(), 999_999);
}

#[test]
fn what_nobody_wrote_does_not_overflow_either() {
    let times = [0, 1, START, START + 1, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    for limit in [
        "5/10s",
        "5/10s fixed-window",
        "5/10s fixed-window-from-first",
        "5/10s sliding-log",
        "5/10s sliding-counter",
    ] {
        for (time, used) in times.into_iter().flat_map(|time| [0, 5, 6, u64::MAX].map(|used| (time, used))) {
            let mut subject = Limited::of(limit);
            subject.cell.stored = match subject.quota.algorithm() {
                Algorithm::FixedWindow { .. } => Stored::Window(time, used),
                Algorithm::SlidingCounter { .. } => Stored::Counter(time, used, used),
                Algorithm::SlidingLog { .. } => Stored::Log([START.min(time), time, time].into()),
                Algorithm::TokenBucket { refill, .. } => {
                    Stored::Bucket(FullAt { at_us: time, part: used % refill })
                }
            };
            let standing = subject.check(Ask::whole(5)).standings[0];
            assert!(standing.reset <= Duration::from_secs(30), "{limit}: {time} {used} {standing:?}");
            subject.refund(3);
            subject.wait(standing.reset);
            assert_eq!(subject.take(5), 5, "{limit}: {time} {used}");
        }
    }
}

/// Stable across releases: a new one must not begin every limit afresh.
#[test]
fn tags_stay_what_they_are() {
    for (limit, tag) in [
        ("100/20s", "tXrB"),
        ("10/s burst=50", "tah-"),
        ("60/1min fixed-window", "wMDW"),
        ("60/1min fixed-window-from-first", "fMDW"),
        ("5/1min sliding-log", "ldw1"),
        ("1000/h sliding-counter", "cO4T"),
    ] {
        let quota = Limited::of(limit).quota;
        assert_eq!(String::from_utf8_lossy(&quota.tag()), tag, "{limit}");
    }
}

#[test]
fn realistic_limits_that_may_meet_have_different_tags() {
    // Those of one subject, or one after another: the same algorithm with other numbers.
    for pair in [
        ["10/s", "1000/h"],
        ["5/s", "100/1min"],
        ["100/1min", "1000/h"],
        ["100/1min", "5000/h"],
        ["60/1min", "1000/d"],
        ["10/s", "20/s"],
        ["100/20s", "200/20s"],
        ["5/1min", "10/1min"],
        ["10/s burst=20", "10/s burst=50"],
        ["1000/h", "10000/d"],
        ["3/1min", "20/h"],
    ] {
        for algorithm in ["", " fixed-window", " sliding-counter", " sliding-log"] {
            let tags = pair.map(|limit| {
                format!("{limit}{algorithm}").parse::<Limit>().map(|limit| limit.quota().unwrap().tag())
            });
            if let [Ok(one), Ok(other)] = tags {
                assert_ne!(one, other, "{pair:?}{algorithm}");
            }
        }
    }
    let mut tags = HashMap::new();
    for limit in all(7, Duration::from_secs(7)) {
        let quota = limit.unwrap().quota().unwrap();
        assert_eq!(tags.insert(quota.tag(), quota), None);
    }
}

proptest! {
    #[test]
    fn shares_together_are_never_more_than_the_limit(limit in limits(), instances in 1u32..20, elapsed in 0u64..100_000_000) {
        let whole = most_by(limit, elapsed);
        let share = limit.share_of(instances);
        prop_assert!(most_by(share, elapsed) * u128::from(instances) <= whole, "{limit} by {instances}: {share}");
    }

    #[test]
    fn shares_of_large_limits_are_limits(
        capacity in 1..=MAX_COUNT, refill in 1..=MAX_COUNT, period in 1u64..=3_155_760_000_000_000, instances: u32,
    ) {
        let Ok(limit) = Limit::token_bucket(capacity).refill(refill, Duration::from_micros(period)) else { return Ok(()) };
        let share = limit.share_of(instances);
        if let Some(Algorithm::TokenBucket { capacity, refill, period_us }) = share.quota().map(Quota::algorithm) {
            let again = Limit::token_bucket(capacity).refill(refill, Duration::from_micros(period_us));
            prop_assert_eq!(again.unwrap(), share);
        }
    }
}

/// What passes until `elapsed` after the first call, at most.
fn most_by(limit: Limit, elapsed: u64) -> u128 {
    match limit.quota().map(Quota::algorithm) {
        None => 0,
        Some(Algorithm::TokenBucket { capacity, refill, period_us }) => {
            u128::from(capacity) + u128::from(refill) * u128::from(elapsed) / u128::from(period_us)
        }
        Some(
            Algorithm::FixedWindow { count, .. }
            | Algorithm::SlidingLog { count, .. }
            | Algorithm::SlidingCounter { count, .. },
        ) => u128::from(count),
    }
}
