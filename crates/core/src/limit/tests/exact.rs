//! The token bucket against the same in fractions.

use std::time::Duration;

use proptest::prelude::*;

use super::support::*;
use crate::limit::*;
use crate::time::micros_of;

/// Refill, period in microseconds, and a capacity.
const RATES: [(u64, u64, u64); 8] = [
    (3, 3_600 * SECOND, 2),
    (7, 10 * SECOND, 7),
    (700_000, SECOND, 1_000),
    (3_000_000, SECOND, 5_000_000),
    (1_000_007, 86_400 * SECOND, 50),
    (1, 70 * 31_536_000 * SECOND, 1),
    (9, 10 * SECOND, 10),
    (1_000_000_000_000, SECOND, 1_000_000_000_000),
];

/// A bucket as everybody draws it: a level that rises, in 1/period of a token per microsecond of refill.
struct Fractions {
    level: u128,
    at_us: u64,
    rate: (u64, u64, u64),
}

impl Fractions {
    fn new(rate: (u64, u64, u64)) -> Self {
        Self { level: u128::from(rate.2) * u128::from(rate.1), at_us: START, rate }
    }

    fn check(&mut self, now_us: u64, cost: u64) -> (bool, u64, u64) {
        let (refill, period, capacity) =
            (u128::from(self.rate.0), u128::from(self.rate.1), u128::from(self.rate.2));
        self.level = (self.level + u128::from(now_us - self.at_us) * refill).min(capacity * period);
        self.at_us = now_us;
        let wanted = u128::from(cost) * period;
        let is_granted = wanted <= self.level;
        let waits = wanted.saturating_sub(self.level).div_ceil(refill);
        if is_granted {
            self.level -= wanted;
        }
        (is_granted, (self.level / period).try_into().unwrap(), waits.try_into().unwrap())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn r73_r46_it_is_the_same_as_fractions_however_it_is_polled(
        rate in prop::sample::select(RATES.to_vec()),
        polls in prop::collection::vec((0u64..5_000, 0u32..30, 0u64..200), 1..80),
    ) {
        let (refill, period_us, capacity) = rate;
        let mut subject = Limited::new(Limit::token_bucket(capacity).refill(refill, Duration::from_micros(period_us)));
        let mut fractions = Fractions::new(rate);
        for (gap, doublings, cost) in polls {
            // From microseconds to months.
            subject.pass(gap << doublings);
            let cost = (1 + cost * capacity / 190).min(capacity);
            let (is_granted, remaining, waits) = fractions.check(subject.now_us, cost);
            let checked = subject.check(Ask::whole(cost));
            let standing = checked.standings[0];
            prop_assert_eq!(checked.granted() == cost, is_granted);
            prop_assert_eq!(standing.remaining, remaining);
            prop_assert_eq!(standing.retry_after.map(micros_of), Some(waits));
        }
    }

    #[test]
    fn r62_r61_the_long_run_rate_is_exact(
        rate in prop::sample::select(RATES.to_vec()),
        gaps in prop::collection::vec(1u64..1_000, 1..100),
    ) {
        let (refill, period_us, _) = rate;
        // Of one token to some hundred per poll; the bucket never overflows.
        let scale = (period_us / refill).max(1);
        let capacity = 1_000 + u64::try_from(u128::from(refill) * 1_000 * u128::from(scale) / u128::from(period_us)).unwrap();
        let capacity = capacity.min(MAX_COUNT);
        let limit = Limit::token_bucket(capacity).refill(refill, Duration::from_micros(period_us));
        let Ok(limit) = limit else { return Ok(()) };
        let mut subject = Limited::new(Ok(limit));
        let mut total = u128::from(subject.check(Ask::up_to(MAX_COUNT)).granted());
        for gap in gaps {
            subject.pass(gap * scale / 10);
            total += u128::from(subject.check(Ask::up_to(MAX_COUNT)).granted());
        }
        let refilled = u128::from(refill) * u128::from(subject.now_us - START) / u128::from(period_us);
        prop_assert_eq!(total, u128::from(capacity) + refilled);
    }

    #[test]
    fn a_step_is_what_a_call_adds(cost in 1u64..=MAX_COUNT, refill in 1u64..=MAX_COUNT, period in 1u64..=3_155_760_000_000_000) {
        let (whole, part) = Bucket::step(cost, refill, period);
        let parts = u128::from(cost) * u128::from(period);
        if parts / u128::from(refill) <= u128::from(u64::MAX) {
            prop_assert_eq!(u128::from(whole) * u128::from(refill) + u128::from(part), parts);
        }
        prop_assert!(part < refill);
    }
}

#[test]
fn r61_every_rate_of_the_list_is_exact_over_a_long_time() {
    for (refill, period_us, polls) in [
        (3, 3_600 * SECOND, 10_000),
        (7, 10 * SECOND, 10_000),
        (700_000, SECOND, 10_000),
        (3_000_000, SECOND, 10_000),
        (1_000_007, 86_400 * SECOND, 10_000),
    ] {
        let mut subject =
            Limited::new(Limit::token_bucket(50).refill(refill, Duration::from_micros(period_us)));
        let gap = (period_us * 7 / refill).max(7) - 1;
        let mut total = subject.calls(60);
        for _ in 0..polls {
            subject.pass(gap);
            total += subject.check(Ask::up_to(60)).granted();
        }
        let refilled = u128::from(refill) * u128::from(gap * polls) / u128::from(period_us);
        assert_eq!(u128::from(total), 50 + refilled, "{refill} per {period_us}");
    }
    let years = |years: u64| years * 365 * 86_400 * SECOND;
    let mut subject = Limited::of("1/70y");
    assert_eq!(subject.calls(2), 1);
    subject.pass(years(70) - 1);
    assert_eq!((subject.take(1), subject.standing().retry_after), (0, Some(Duration::from_micros(1))));
    subject.pass(1);
    assert_eq!(subject.take(1), 1);
}

#[test]
fn r46_polling_every_millisecond_loses_nothing() {
    let mut subject = Limited::of("10/s");
    assert_eq!(subject.calls(20), 10);
    let passed: u64 = (0..60_000).map(|_| (subject.pass(1_000), subject.take(1)).1).sum();
    assert_eq!(passed, 600);
}

#[test]
fn r76_taking_and_giving_back_leaves_nothing_missing() {
    let mut subject = Limited::of("10/s");
    for _ in 0..1_000 {
        assert_eq!((subject.take(1), subject.refund(1).remaining), (1, 10));
        subject.pass(100_000);
    }
}
