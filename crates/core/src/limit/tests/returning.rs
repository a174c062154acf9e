//! When to come back: exactly then, and not a microsecond earlier.

use std::time::Duration;

use proptest::prelude::*;

use super::support::*;
use crate::limit::*;

const MICRO: Duration = Duration::from_micros(1);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn r79_r86_r92_a_call_at_retry_after_passes_and_none_before(
        limit in limits(), steps in unsteady(), cost in 1u64..12,
    ) {
        let mut subject = Limited::new(Ok(limit));
        subject.play(steps);
        let cost = cost.min(subject.capacity());
        let standing = subject.peek(Ask::whole(cost)).standings[0];
        let wait = standing.retry_after.unwrap();
        prop_assert_eq!(wait.is_zero(), cost <= standing.remaining);
        if wait > Duration::ZERO {
            let mut early = subject.clone();
            early.wait(wait - MICRO);
            prop_assert_eq!(early.take(cost), 0, "{}: early by a microsecond, {:?}", limit, subject);
        }
        let denied = subject.check(Ask::whole(cost));
        if denied.granted() == 0 {
            prop_assert_eq!(denied.standings[0].retry_after, Some(wait));
            subject.wait(wait);
            prop_assert_eq!(subject.take(cost), cost, "{}: {:?}", limit, subject);
        }
    }

    #[test]
    fn r82_r88_r89_r91_at_reset_everything_is_there_and_not_before(limit in limits(), steps in unsteady()) {
        let mut subject = Limited::new(Ok(limit));
        subject.play(steps);
        // Peeking repairs nothing, and what it says of a state that has to be repaired holds once it is.
        subject.take(subject.capacity() + 1);
        let (reset, capacity) = (subject.standing().reset, subject.capacity());
        prop_assert_eq!(reset.is_zero(), subject.remaining() == capacity && subject.is_untouched());
        if reset > Duration::ZERO {
            let mut early = subject.clone();
            early.wait(reset - MICRO);
            prop_assert!(early.remaining() < capacity || !early.is_untouched(), "{}: {:?}", limit, subject);
        }
        subject.wait(reset);
        prop_assert_eq!(subject.remaining(), capacity);
        prop_assert_eq!(subject.standing().reset, Duration::ZERO);
    }

    #[test]
    fn r19_r20_r22_nothing_is_forgotten_before_it_is_without_effect(limit in limits(), steps in unsteady()) {
        let mut subject = Limited::new(Ok(limit));
        subject.play(steps);
        subject.check(Ask::whole(1));
        if let Some(expires_ms) = subject.cell.expires_ms {
            let reset_us = subject.now_us + crate::time::micros_of(subject.standing().reset);
            prop_assert!(expires_ms * 1_000 >= reset_us, "{}: {:?}", limit, subject);
            prop_assert!(expires_ms > subject.now_us / 1_000);
        }
    }
}

impl Limited {
    /// Nothing is missing, not even a part of a token.
    fn is_untouched(&mut self) -> bool {
        match self.kept().stored {
            Stored::Bucket(full) => full.at_us < self.now_us || (full.at_us == self.now_us && full.part == 0),
            _ => self.remaining() == self.capacity(),
        }
    }
}
