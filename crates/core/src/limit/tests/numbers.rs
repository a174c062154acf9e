//! Known situations with their numbers (see `docs/decisions/0006-cases.md`).

use std::time::Duration;

use super::support::*;
use crate::limit::*;

const MICRO: Duration = Duration::from_micros(1);

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn r14_a_bucket_of_one_at_three_per_second_is_kept() {
    let mut subject = Limited::of("3/s burst=1");
    assert_eq!(subject.calls(100), 1);
    assert_eq!(subject.cell.expires_ms, Some(START / 1_000 + 334));
    let passed: u64 = (0..100).map(|_| (subject.pass(100_000), subject.take(1)).1).sum();
    // One each 400 ms, as it is asked each 100.
    assert_eq!(passed, 25);
    let passed: u64 = (0..10_000).map(|_| (subject.pass(1_000), subject.take(1)).1).sum();
    assert_eq!(passed, 29);
}

#[test]
fn r16_r71_a_key_lives_for_whole_milliseconds_rounded_up_and_one_at_least() {
    for (limit, lives_ms) in [
        ("10/s burst=1", 100),
        ("1000000/s burst=1", 1),
        ("1/600001us", 601),
        ("1/1us fixed-window", 1),
        ("1/1500us fixed-window-from-first", 2),
        ("1/1us sliding-log", 1),
        ("1/1us sliding-counter", 1),
    ] {
        let mut subject = Limited::of(limit);
        assert_eq!(subject.take(1), 1);
        assert_eq!(subject.cell.expires_ms, Some(START / 1_000 + lives_ms), "{limit}");
    }
}

#[test]
fn r19_a_bucket_is_not_forgotten_before_it_is_full() {
    let mut subject = Limited::of("1/10s burst=10");
    assert_eq!(subject.calls(10), 10);
    subject.pass(11 * SECOND);
    assert_eq!(subject.calls(10), 1);
}

#[test]
fn r20_the_previous_window_counts_to_the_end_of_the_next() {
    let mut subject = Limited::of("10/1min sliding-counter");
    subject.pass(SECOND);
    assert_eq!(subject.calls(20), 10);
    assert_eq!(subject.cell.expires_ms, Some(START / 1_000 + 120_000));
    subject.pass(118 * SECOND + 999_999);
    assert_eq!(subject.remaining(), 9);
}

#[test]
fn r22_a_bucket_without_its_key_is_a_full_one() {
    let mut subject = Limited::of("10/10s");
    subject.calls(10);
    subject.pass(10 * SECOND - 1);
    assert_eq!(subject.remaining(), 9);
    subject.pass(1);
    let (kept, mut lost) = (subject.standing(), subject.clone());
    lost.cell = LimitCell::default();
    assert_eq!(lost.standing(), kept);
}

#[test]
fn r23_r56_r58_a_rate_or_capacity_of_nothing_is_refused() {
    let window = Duration::from_secs(1);
    for limit in [
        Limit::token_bucket(5).refill(0, window),
        Limit::token_bucket(0).refill(5, window),
        Limit::fixed_window(0, window),
        Limit::fixed_window_from_first(0, window),
        Limit::sliding_log(0, window),
        Limit::sliding_counter(0, window),
    ] {
        assert!(limit.unwrap_err().to_string().contains("is 0"));
    }
    for limit in [
        Limit::token_bucket(5).refill(5, Duration::ZERO),
        Limit::fixed_window(5, Duration::ZERO),
        Limit::sliding_log(5, Duration::ZERO),
        Limit::sliding_counter(5, Duration::ZERO),
    ] {
        assert!(limit.unwrap_err().to_string().contains("the window is 0"));
    }
}

#[test]
fn r25_exactly_twenty_of_ten_thousand_calls_pass() {
    let mut subject = Limited::of("20/1min sliding-log");
    let passed: u64 = (0..10_000).map(|_| (subject.pass(1_900), subject.take(1)).1).sum();
    assert_eq!(passed, 20);
}

#[test]
fn r29_refused_calls_do_not_block_for_ever() {
    for (limit, least) in [("10/1min sliding-log", 100), ("10/1min", 100), ("10/1min sliding-counter", 90)] {
        let mut subject = Limited::of(limit);
        let passed: u64 = (0..120).map(|_| (subject.pass(5 * SECOND), subject.take(1)).1).sum();
        assert!(passed >= least && passed <= 120, "{limit}: {passed}");
    }
}

#[test]
fn r31_the_call_that_makes_it_full_is_allowed() {
    for limit in ["10/1min", "10/1min fixed-window", "10/1min sliding-log", "10/1min sliding-counter"] {
        let mut subject = Limited::of(limit);
        assert_eq!(subject.take(9), 9);
        assert_eq!(subject.check(Ask::whole(1)).standings[0].remaining, 0, "{limit}");
        assert_eq!(subject.take(1), 0, "{limit}");
    }
}

#[test]
fn r32_a_cost_counts_as_a_whole() {
    for limit in ["10/1min", "10/1min fixed-window", "10/1min sliding-log", "10/1min sliding-counter"] {
        let mut subject = Limited::of(limit);
        subject.take(9);
        let denied = subject.check(Ask::whole(5));
        assert_eq!(
            (denied.outcome, denied.standings[0].remaining),
            (Outcome::Denied { by: 0 }, 1),
            "{limit}"
        );
        assert_eq!(subject.take(1), 1, "{limit}");
    }
}

#[test]
fn r34_what_has_left_the_window_does_not_count() {
    let mut subject = Limited::of("5/1min sliding-log");
    subject.calls(5);
    subject.pass(60 * SECOND);
    assert_eq!(subject.calls(9), 5);
}

#[test]
fn r43_three_per_second_stays_three_per_second() {
    let mut subject = Limited::of("3/s");
    let passed: Vec<u64> = (0..100).map(|_| (subject.pass(100_000), subject.take(1)).1).collect();
    assert_eq!(passed.iter().sum::<u64>(), 3 + 29);
    assert!(passed.windows(10).all(|second| second.iter().sum::<u64>() <= 6));
}

#[test]
fn r44_a_bucket_fills_while_it_is_used() {
    let mut subject = Limited::of("10/30s");
    let last = (0..10).map(|at| {
        subject.now_us = START + at * SECOND;
        subject.check(Ask::whole(1)).standings[0].remaining
    });
    assert_eq!(last.last(), Some(3));
}

#[test]
fn r47_a_rate_below_one_is_not_rounded() {
    let mut subject = Limited::of("9/10s burst=10");
    let passed: u64 = (0..60).map(|_| (subject.take(1), subject.pass(SECOND)).0).sum();
    assert_eq!(passed, 60);
}

#[test]
fn r49_idle_time_saves_nothing_beyond_the_capacity() {
    let mut subject = Limited::of("10/10s");
    subject.take(1);
    subject.pass(9 * SECOND);
    assert_eq!(subject.calls(50), 10);
    subject.pass(3_600 * SECOND);
    assert_eq!(subject.calls(50), 10);
}

#[test]
fn r50_a_part_of_a_token_stays() {
    let mut subject = Limited::of("1/s burst=5");
    subject.calls(5);
    subject.pass(2_700_000);
    assert_eq!(subject.check(Ask::up_to(5)).granted(), 2);
    assert_eq!(subject.standing().retry_after, Some(millis(300)));
}

#[test]
fn r64_a_billion_seconds_are_no_overflow() {
    for limit in ["1/1000000000s", "1/1000000000s fixed-window-from-first", "1/1000000000s sliding-log"] {
        let mut subject = Limited::of(limit);
        subject.take(1);
        subject.pass(1_000);
        let denied = subject.check(Ask::whole(1)).standings[0];
        assert_eq!(denied.retry_after, Some(Duration::from_secs(1_000_000_000) - millis(1)), "{limit}");
    }
}

#[test]
fn r65_a_window_that_doubles_ends_at_the_maximum() {
    let results: Vec<bool> = (0..200)
        .map(|doubled| {
            let window = Duration::from_secs(1).saturating_mul(1u32.checked_shl(doubled).unwrap_or(u32::MAX));
            Limit::fixed_window(1, window.max(Duration::from_secs(1 << doubled.min(60)))).is_ok()
        })
        .collect();
    assert_eq!(results.iter().filter(|is_ok| **is_ok).count(), 32);
    assert!(Limit::fixed_window(1, Duration::MAX).unwrap_err().to_string().contains("100 years"));
}

#[test]
fn r74_taking_as_much_as_there_is_of_nothing_takes_nothing() {
    let mut subject = Limited::of("7/10s");
    subject.calls(7);
    let denied = subject.check(Ask::up_to(5));
    assert_eq!(
        (denied.outcome, denied.granted(), denied.standings[0].remaining),
        (Outcome::Denied { by: 0 }, 0, 0)
    );
}

#[test]
fn r79_r80_waits_are_whole_microseconds_and_never_zero_on_a_denial() {
    for (limit, wait) in [
        ("2/3s burst=1", Duration::from_micros(1_500_000)),
        ("5/s burst=1", millis(200)),
        ("3000000/s burst=1", MICRO),
        ("3/s burst=1", Duration::from_micros(333_334)),
    ] {
        let mut subject = Limited::of(limit);
        subject.take(1);
        assert_eq!(subject.check(Ask::whole(1)).standings[0].retry_after, Some(wait), "{limit}");
    }
}

#[test]
fn r82_reset_is_the_ceiling_and_not_one_more() {
    let mut subject = Limited::of("30/1min burst=15");
    assert_eq!(subject.check(Ask::whole(1)).standings[0].reset, Duration::from_secs(2));
}

#[test]
fn r83_r85_what_never_fits_says_so() {
    for (limit, capacity) in [
        ("5/s burst=6", 6),
        ("1/s", 1),
        ("5/s fixed-window", 5),
        ("5/s sliding-log", 5),
        ("5/s sliding-counter", 5),
    ] {
        let mut subject = Limited::of(limit);
        let never = subject.check(Ask::whole(10));
        let standing = never.standings[0];
        assert_eq!(never.outcome, Outcome::Never { by: 0 });
        assert_eq!(
            (standing.remaining, standing.retry_after, standing.reset),
            (capacity, None, Duration::ZERO)
        );
        assert_eq!(subject.cell, LimitCell::default());
    }
}

#[test]
fn r86_a_cost_as_large_as_the_capacity_waits_for_a_full_bucket() {
    let mut subject = Limited::of("10/10s");
    subject.take(4);
    let denied = subject.check(Ask::whole(10));
    assert_eq!(
        (denied.outcome, denied.standings[0].retry_after),
        (Outcome::Denied { by: 0 }, Some(Duration::from_secs(4)))
    );
    subject.pass(4 * SECOND);
    assert_eq!(subject.take(10), 10);
}

#[test]
fn r88_a_wait_is_what_is_left_of_it() {
    let mut subject = Limited::of("5/5min");
    subject.calls(5);
    subject.pass(59 * SECOND);
    assert_eq!(subject.standing().retry_after, Some(Duration::from_secs(1)));
}

#[test]
fn r89_a_log_waits_for_its_oldest_call() {
    let mut subject = Limited::of("2/1min sliding-log");
    subject.take(1);
    subject.pass(10 * SECOND);
    subject.take(1);
    subject.pass(10 * SECOND);
    let denied = subject.check(Ask::whole(1)).standings[0];
    assert_eq!((denied.retry_after, denied.reset), (Some(Duration::from_secs(40)), Duration::from_secs(50)));
}

#[test]
fn r91_a_fixed_window_waits_for_its_end() {
    let mut subject = Limited::of("2/1min fixed-window");
    subject.pass(55 * SECOND);
    subject.calls(2);
    assert_eq!(subject.check(Ask::whole(1)).standings[0].retry_after, Some(Duration::from_secs(5)));
}

#[test]
fn r92_a_bucket_waits_for_one_token_and_not_for_all() {
    let mut subject = Limited::of("10/10s");
    subject.calls(10);
    let denied = subject.check(Ask::whole(1)).standings[0];
    assert_eq!((denied.retry_after, denied.reset), (Some(Duration::from_secs(1)), Duration::from_secs(10)));
}

#[test]
fn r94_nothing_is_allowed_before_the_wait_is_over() {
    let mut subject = Limited::of("6/1min burst=1");
    subject.take(1);
    subject.pass(5 * SECOND);
    assert_eq!((subject.remaining(), subject.take(1)), (0, 0));
    subject.pass(5 * SECOND);
    assert_eq!(subject.take(1), 1);
}

#[test]
fn r95_r97_a_wait_that_is_over_is_zero() {
    let mut subject = Limited::of("1/1s fixed-window-from-first");
    subject.take(1);
    subject.pass(3 * SECOND);
    let standing = subject.standing();
    assert_eq!(
        (standing.remaining, standing.retry_after, standing.reset),
        (1, Some(Duration::ZERO), Duration::ZERO)
    );
}

/// Remaining is what a call right after this one could take at once.
#[test]
fn r98_remaining_by_table() {
    for (limit, after_each) in [
        ("2/s burst=1", [0, 0, 0, 0]),
        ("2/s burst=3", [2, 2, 2, 2]),
        ("2/s burst=5", [4, 4, 4, 4]),
        ("1/s burst=3", [2, 1, 1, 0]),
        ("4/1s fixed-window", [3, 2, 3, 2]),
        ("4/1s sliding-log", [3, 2, 2, 2]),
        ("4/1s sliding-counter", [3, 2, 1, 1]),
    ] {
        let mut subject = Limited::of(limit);
        // One call each half second.
        let remaining = after_each.map(|_| {
            let checked = subject.check(Ask::whole(1));
            assert_eq!(checked.granted(), 1, "{limit}");
            subject.pass(SECOND / 2);
            checked.standings[0].remaining
        });
        assert_eq!(remaining, after_each, "{limit}");
    }
}

/// The numbers are part of the key's name, so a changed limit begins afresh.
#[test]
fn r109_r110_r112_r113_r115_a_changed_limit_begins_afresh() {
    for (before, after, at_once) in [
        ("10/20s burst=15", "1000/20s", 1_000),
        ("2000/d fixed-window", "100/h fixed-window", 100),
        ("5/min fixed-window", "10/min fixed-window", 10),
        ("5/min", "2/min", 2),
        ("5/h sliding-log", "3/h sliding-log", 3),
    ] {
        let (mut old, mut new) = (Limited::of(before), Limited::of(after));
        assert_ne!(old.quota.tag(), new.quota.tag());
        old.calls(500);
        assert_eq!(new.calls(2_000), at_once, "{before} to {after}");
    }
}

/// And where the state of another limit is met all the same, nobody waits longer than a fresh key could make him.
#[test]
fn r109_a_state_of_another_rate_is_brought_near() {
    let mut subject = Limited::of("10/20s burst=15");
    subject.calls(15);
    subject.quota = Limited::of("1000/20s burst=15").quota;
    let wait = subject.check(Ask::whole(15)).standings[0].retry_after.unwrap();
    assert_eq!(wait, millis(300));
    subject.wait(wait);
    assert_eq!(subject.take(15), 15);
}

#[test]
fn r124_a_large_sliding_log_is_refused() {
    let error = Limit::sliding_log(1_000_000, Duration::from_secs(1)).unwrap_err().to_string();
    assert!(error.contains("1000000") && error.contains("10000"), "{error}");
    assert!(Limit::sliding_log(MAX_LOG_COUNT, Duration::from_secs(1)).is_ok());
}
