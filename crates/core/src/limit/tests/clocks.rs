//! The server's clock is set back and forward.
//!
//! What counts as time is the clock's *forward movement*: a clock set forward by an hour refills as an hour does, and one set
//! back refills nothing.

use std::time::Duration;

use proptest::prelude::*;

use super::bounds::{most_within, overflow, stated};
use super::support::*;
use crate::limit::*;

/// Forward movement, and how much was granted then.
fn moved(subject: &mut Limited, steps: &[Step]) -> (Vec<(u64, u64)>, u64) {
    let (mut moved, mut set_back, mut granted) = (0, 0, Vec::new());
    for step in steps {
        let before = subject.now_us;
        let cost = subject.step(*step);
        moved += subject.now_us.saturating_sub(before);
        set_back += u64::from(subject.now_us < before);
        if cost > 0 {
            granted.push((moved, cost));
        }
    }
    (granted, set_back)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn r101_r103_r106_no_more_passes_than_the_bound_of_the_forward_movement(limit in limits(), steps in unsteady()) {
        let mut subject = Limited::new(Ok(limit));
        let (granted, set_back) = moved(&mut subject, &steps);
        // Windows that are aligned to the clock come again when it is set back over their beginning.
        let again = match subject.quota.algorithm() {
            Algorithm::FixedWindow { from: WindowStart::Aligned, count, .. } => set_back * count,
            Algorithm::SlidingCounter { count, .. } => subject.repaired as u64 * count,
            _ => 0,
        };
        if let Some(bound) = stated(subject.quota) {
            let most = most_within(&granted, subject.window_us());
            prop_assert!(most <= bound + again, "{limit}: {most} of {bound} + {again} in {granted:?}");
        }
        prop_assert_eq!(overflow(&granted, subject.quota), None, "{}: {:?}", limit, granted);
    }

    #[test]
    fn r104_r106_nobody_waits_longer_than_two_windows(limit in limits(), steps in unsteady(), cost in 1u64..12) {
        let mut subject = Limited::new(Ok(limit));
        subject.play(steps);
        let most = match subject.quota.algorithm() {
            Algorithm::TokenBucket { .. } => 1,
            Algorithm::SlidingCounter { .. } => 3,
            _ => 2,
        };
        let most = Duration::from_micros(subject.window_us() * most);
        let standing = subject.peek(Ask::whole(cost.min(subject.capacity()))).standings[0];
        prop_assert!(standing.retry_after.unwrap() <= most && standing.reset <= most, "{limit}: {subject:?}");
    }

    #[test]
    fn r101_stored_times_move_back_only_where_they_are_repaired(limit in limits(), steps in unsteady()) {
        let mut subject = Limited::new(Ok(limit));
        for step in steps {
            let (before, repaired) = (subject.kept().stored, subject.repaired);
            let latest = reference(&before);
            subject.step(step);
            let has_expired = subject.kept().stored == Stored::Empty;
            if let (Step::Ask(_), Some(latest), Some(now)) = (step, latest, reference(&subject.cell.stored)) {
                prop_assert!(now >= latest || subject.repaired > repaired || has_expired, "{limit}: {before:?} {subject:?}");
            }
        }
    }
}

/// The latest moment that is stored.
fn reference(stored: &Stored) -> Option<u64> {
    match stored {
        Stored::Bucket(full) => Some(full.at_us),
        Stored::Window(start_us, _) | Stored::Counter(start_us, ..) => Some(*start_us),
        Stored::Log(times) => times.back().copied(),
        Stored::Empty | Stored::Foreign => None,
    }
}

const EACH: [&str; 5] = [
    "5/10s",
    "5/10s fixed-window",
    "5/10s fixed-window-from-first",
    "5/10s sliding-log",
    "5/10s sliding-counter",
];
const HOUR: u64 = 3_600 * SECOND;

#[test]
fn r104_an_hour_back_is_repaired_once_and_what_was_used_stays_used() {
    for limit in EACH {
        let mut subject = Limited::of(limit);
        subject.calls(5);
        subject.now_us -= HOUR;
        assert_eq!((subject.calls(3), subject.repaired), (0, 1), "{limit}");
        let wait = subject.standing().retry_after.unwrap();
        assert!(wait <= Duration::from_secs(20), "{limit}: {wait:?}");
        subject.wait(wait);
        assert_eq!((subject.take(1), subject.repaired), (1, 1), "{limit}");
    }
}

#[test]
fn r103_a_little_back_gives_nothing() {
    for limit in EACH {
        let mut subject = Limited::of(limit);
        subject.pass(20);
        subject.calls(5);
        subject.now_us -= 40;
        assert_eq!(subject.calls(3), 0, "{limit}");
        subject.pass(40);
        assert_eq!(subject.calls(3), 0, "{limit}");
        // Only an empty bucket is brought near so soon: its wait is never longer than it takes to fill.
        assert_eq!(subject.repaired, usize::from(limit == "5/10s"), "{limit}");
    }
}

#[test]
fn r101_times_that_alternate_refill_once() {
    let mut subject = Limited::of("60/1min burst=150");
    subject.now_us = START + 290 * SECOND;
    assert_eq!(subject.take(2), 2);
    for _ in 0..10 {
        let full = subject.cell.clone();
        subject.now_us = START + 289 * SECOND;
        assert_eq!((subject.take(10), subject.repaired), (10, 0));
        assert!(reference(&subject.cell.stored) > reference(&full.stored));
        subject.now_us = START + 290 * SECOND;
    }
    assert_eq!(subject.remaining(), 150 - 2 - 10 * 10);
}

#[test]
fn an_hour_forward_counts_as_an_hour() {
    for limit in EACH {
        let mut subject = Limited::of(limit);
        subject.calls(5);
        subject.pass(HOUR);
        assert_eq!((subject.calls(9), subject.repaired), (5, 0), "{limit}");
    }
}

/// A clock that flaps is a clock that goes forward: every turn of it may give what is there in an hour, and no more.
#[test]
fn a_clock_that_flaps_by_an_hour_gives_one_capacity_per_turn() {
    for limit in EACH {
        let mut subject = Limited::of(limit);
        assert_eq!(subject.calls(9), 5);
        for _ in 0..10 {
            subject.now_us -= HOUR;
            assert_eq!(subject.calls(9), 0, "{limit}");
            subject.pass(HOUR);
            assert_eq!(subject.calls(9), 5, "{limit}");
        }
    }
}
