//! What each algorithm lets through within any half-open interval, and that it does.

use proptest::prelude::*;

use super::support::*;
use crate::limit::*;

/// When, and how much.
type Granted = Vec<(u64, u64)>;

fn granted(subject: &mut Limited, steps: &[Step]) -> Granted {
    let mut granted = Vec::new();
    for step in steps {
        match subject.step(*step) {
            0 => {}
            cost => granted.push((subject.now_us, cost)),
        }
    }
    granted
}

/// The most that any interval `[t, t + length)` has.
pub(super) fn most_within(granted: &[(u64, u64)], length: u64) -> u64 {
    let sums = granted.iter().enumerate().map(|(first, (from, _))| {
        let inside = granted[first..].iter().take_while(|(at, _)| *at < from + length);
        inside.map(|(_, cost)| cost).sum()
    });
    sums.max().unwrap_or(0)
}

/// The bound that the documentation states for windows; `None` for a bucket.
pub(super) fn stated(quota: Quota) -> Option<u64> {
    match quota.algorithm() {
        Algorithm::FixedWindow { count, .. } => Some(2 * count),
        Algorithm::SlidingCounter { count, .. } => Some(2 * count - 1),
        Algorithm::SlidingLog { count, .. } => Some(count),
        Algorithm::TokenBucket { .. } => None,
    }
}

/// More than capacity + floor(refill × t / period) in some interval that begins and ends with a call.
pub(super) fn overflow(granted: &[(u64, u64)], quota: Quota) -> Option<(u64, u64)> {
    let Algorithm::TokenBucket { capacity, refill, period_us } = quota.algorithm() else { return None };
    for (first, (from, _)) in granted.iter().enumerate() {
        let mut sum = 0;
        for (at, cost) in &granted[first..] {
            sum += cost;
            let refilled = u128::from(refill) * u128::from(at - from) / u128::from(period_us);
            if u128::from(sum) > u128::from(capacity) + refilled {
                return Some((*from, *at));
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn r53_no_interval_has_more_than_the_stated_bound(limit in limits(), steps in calls(), offset in 0u64..20_000_000) {
        let mut subject = Limited::new(Ok(limit));
        subject.pass(offset);
        let granted = granted(&mut subject, &steps);
        if let Some(bound) = stated(subject.quota) {
            prop_assert!(most_within(&granted, subject.window_us()) <= bound, "{limit}: {granted:?}");
        }
        prop_assert_eq!(overflow(&granted, subject.quota), None, "{}: {:?}", limit, granted);
    }

    #[test]
    fn r35_what_passes_is_never_more_than_there_was(limit in limits(), steps in dealings()) {
        let mut subject = Limited::new(Ok(limit));
        for step in steps {
            let before = subject.remaining();
            let granted = subject.step(step);
            prop_assert!(granted <= before && granted <= subject.capacity());
            if let Step::Ask(_) = step {
                prop_assert_eq!(subject.remaining(), before - granted);
            }
        }
    }
}

#[test]
fn r52_r55_a_fixed_window_lets_2n_through_around_a_boundary() {
    let mut subject = Limited::of("60/1min fixed-window");
    subject.pass(59_999_999);
    assert_eq!(subject.calls(100), 60);
    subject.pass(1);
    assert_eq!(subject.calls(100), 60);
}

/// The call that begins a window lies a whole window before the next one, so 2N − 1 is what calls reach.
#[test]
fn r52_a_window_from_the_first_call_reaches_2n_less_one() {
    let mut subject = Limited::of("5/10s fixed-window-from-first");
    let mut granted = vec![(subject.now_us, subject.take(1))];
    subject.pass(10 * SECOND - 1);
    granted.push((subject.now_us, subject.take(4)));
    subject.pass(1);
    granted.push((subject.now_us, subject.take(5)));
    assert_eq!(most_within(&granted, 10 * SECOND), 9);
}

#[test]
fn r52_and_2n_where_the_first_call_was_refunded() {
    let mut subject = Limited::of("5/10s fixed-window-from-first");
    subject.take(1);
    subject.refund(1);
    subject.pass(10 * SECOND - 1);
    assert_eq!(subject.calls(9), 5);
    subject.pass(1);
    assert_eq!(subject.calls(9), 5);
}

#[test]
fn r53_a_sliding_log_reaches_n_and_no_more_at_a_boundary() {
    let mut subject = Limited::of("60/1min sliding-log");
    subject.pass(59_999_999);
    assert_eq!(subject.calls(100), 60);
    subject.pass(1);
    assert_eq!(subject.calls(100), 0);
    subject.pass(59_999_998);
    assert_eq!(subject.calls(100), 0);
    subject.pass(1);
    assert_eq!(subject.calls(100), 60);
}

#[test]
fn r29_a_sliding_counter_reaches_2n_less_one() {
    for count in [1, 2, 10, 1_000] {
        let mut subject = Limited::new(Limit::sliding_counter(count, std::time::Duration::from_secs(10)));
        subject.pass(10 * SECOND - 1);
        let mut granted = vec![(subject.now_us, subject.check(Ask::up_to(count)).granted())];
        // Two microseconds before the end of the next window, which is a window less one after those.
        subject.pass(10 * SECOND - 1);
        granted.push((subject.now_us, subject.check(Ask::up_to(count)).granted()));
        assert_eq!(most_within(&granted, 10 * SECOND), 2 * count - 1, "{count}");
    }
}

#[test]
fn r49_a_token_bucket_reaches_its_capacity_and_what_is_refilled() {
    let mut subject = Limited::of("7/10s burst=3");
    let mut total = subject.calls(9);
    for _ in 0..1000 {
        subject.pass(10_001);
        total += subject.calls(9);
    }
    assert_eq!(total, 3 + 7 * 10_001 * 1000 / (10 * SECOND));
}
