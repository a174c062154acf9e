//! Waits that are lengthened at random, so that not all come back at once.

use std::time::Duration;

/// By how much the waits of one answer are lengthened, at most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jitter(pub(super) Duration);

impl Jitter {
    pub(super) fn draw(self) -> Duration {
        if self.0.is_zero() { Duration::ZERO } else { rand::random_range(Duration::ZERO..=self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::whole_seconds;

    /// The client comes when the told seconds are over; the window ends `left` after the answer.
    fn arrivals_in_the_first_second(left: Duration, jitter: Jitter) -> usize {
        let told = |_| Duration::from_secs(whole_seconds(left + jitter.draw()));
        let arrivals: Vec<Duration> = (0..10_000).map(told).collect();
        assert!(arrivals.iter().all(|at| *at >= left), "somebody is told to come too early");
        arrivals.iter().filter(|at| **at < left + Duration::from_secs(1)).count()
    }

    #[test]
    fn r170_of_ten_thousand_less_than_a_tenth_come_in_the_first_second() {
        // Refused anywhere within a window of 60 s: 5 % are expected on average, so 10 % is 23 deviations away.
        let jitter = Jitter(Duration::from_secs(10));
        let lefts = (0..60).map(|second| Duration::from_millis(second * 1000 + 500));
        for left in lefts {
            let first = arrivals_in_the_first_second(left, jitter);
            assert!(first < 1000, "{first} of 10000 for {left:?}");
        }
    }

    #[test]
    fn without_jitter_they_all_come_at_once() {
        let left = Duration::from_millis(7500);
        assert_eq!(arrivals_in_the_first_second(left, Jitter::default()), 10_000);
    }
}
