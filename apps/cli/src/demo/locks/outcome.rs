//! What came of it, as it was seen.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// The whole demonstration.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// The store's address, without credentials.
    pub(super) store: String,
    pub(super) processes: u32,
    pub(super) workers: u32,
    pub(super) rounds: u32,
    pub(super) without_lock: Counted,
    pub(super) under_lock: Counted,
    pub(super) line: Line,
    pub(super) stalled: Stalled,
    pub(super) trouble: Trouble,
}

/// What became of the counter.
#[derive(Debug, Serialize)]
pub(super) struct Counted {
    /// How often a worker added one.
    pub(super) updates: u64,
    /// What the counter says in the end.
    pub(super) counter: u64,
    #[serde(serialize_with = "as_us", rename = "took_us")]
    pub(super) took: Duration,
    #[serde(serialize_with = "as_us", rename = "longest_wait_us")]
    pub(super) longest_wait: Duration,
}

/// How a lock went through a line of those who wait.
#[derive(Debug, Default, Serialize)]
pub(super) struct Line {
    /// How many tasks wait.
    pub(super) first_keeper: u32,
    pub(super) of_these_with_another_lease: u32,
    pub(super) second_keeper: u32,
    pub(super) acquisitions: u64,
    /// How often it was handed on, by the way.
    pub(super) in_process: u64,
    pub(super) by_swap: u64,
    pub(super) by_server: u64,
    pub(super) waited: Waits,
}

/// How long acquisitions took: so long at most for half of them, and so on.
#[derive(Debug, Default, Serialize)]
pub(super) struct Waits {
    #[serde(serialize_with = "as_us", rename = "p50_us")]
    pub(super) p50: Duration,
    #[serde(serialize_with = "as_us", rename = "p90_us")]
    pub(super) p90: Duration,
    #[serde(serialize_with = "as_us", rename = "p99_us")]
    pub(super) p99: Duration,
    #[serde(serialize_with = "as_us", rename = "longest_us")]
    pub(super) longest: Duration,
}

/// What is counted when something goes wrong.
#[derive(Debug, Default, Serialize)]
pub(super) struct Trouble {
    /// Who was in the way of a try.
    pub(super) refused: String,
    /// How often a lock was renewed that was held for longer than its lease.
    pub(super) renewals: u64,
    /// What the guard of an outlived lease said, and what its release found.
    pub(super) lost: String,
    pub(super) late_release: String,
    /// Why a lock was taken inside this process only, and after how long.
    pub(super) degraded: String,
    #[serde(serialize_with = "as_us", rename = "degraded_after_us")]
    pub(super) degraded_after: Duration,
}

/// What became of a worker that stalled for longer than its lease.
#[derive(Debug, Serialize)]
pub(super) struct Stalled {
    pub(super) first_fence: u64,
    pub(super) second_fence: u64,
    /// What the first one's guard said.
    pub(super) first_lost: String,
    /// The late write was accepted: by the resource that checks fences, and by the one that does not.
    pub(super) fenced_accepted: bool,
    pub(super) plain_accepted: bool,
    /// What they hold in the end.
    pub(super) fenced_holds: &'static str,
    pub(super) plain_holds: &'static str,
}

impl Waits {
    /// Exact, as all of them are here.
    pub(super) fn of(mut waits: Vec<Duration>) -> Self {
        waits.sort_unstable();
        let at = |percent: usize| {
            let place = (waits.len() * percent).div_ceil(100).saturating_sub(1);
            waits.get(place).copied().unwrap_or_default()
        };
        Self { p50: at(50), p90: at(90), p99: at(99), longest: at(100) }
    }
}

impl Counted {
    pub(super) fn lost(&self) -> u64 {
        self.updates.saturating_sub(self.counter)
    }

    pub(super) fn per_second(&self) -> f64 {
        self.updates as f64 / self.took.as_secs_f64().max(1e-6)
    }
}

impl Outcome {
    /// What the lock or the fence failed to prevent.
    pub(super) fn broken(&self) -> Option<String> {
        let (counted, stalled) = (&self.under_lock, &self.stalled);
        if counted.counter != counted.updates {
            return Some(format!(
                "under the lock, the counter says {} after {} updates",
                counted.counter, counted.updates
            ));
        }
        if stalled.second_fence <= stalled.first_fence {
            return Some("the second holder's fence is not greater than the first one's".to_owned());
        }
        let overwritten = stalled.fenced_accepted || stalled.fenced_holds != super::stall::SECOND;
        overwritten.then(|| "the late write was not refused".to_owned())
    }
}

fn as_us<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::locks::stall::{LATE, SECOND};

    fn counted(counter: u64) -> Counted {
        Counted { updates: 100, counter, took: Duration::ZERO, longest_wait: Duration::ZERO }
    }

    fn sound() -> Outcome {
        let stalled = Stalled {
            first_fence: 1,
            second_fence: 2,
            first_lost: String::new(),
            fenced_accepted: false,
            plain_accepted: true,
            fenced_holds: SECOND,
            plain_holds: LATE,
        };
        let (without_lock, under_lock) = (counted(5), counted(100));
        Outcome {
            store: String::new(),
            processes: 1,
            workers: 10,
            rounds: 10,
            without_lock,
            under_lock,
            line: Line::default(),
            stalled,
            trouble: Trouble::default(),
        }
    }

    #[test]
    fn percentiles_are_waits_that_happened() {
        let waits = Waits::of((1..=200).rev().map(Duration::from_millis).collect());
        let [p50, p90, p99, longest] = [100, 180, 198, 200].map(Duration::from_millis);
        assert_eq!((waits.p50, waits.p90, waits.p99, waits.longest), (p50, p90, p99, longest));
        assert_eq!(Waits::of(vec![p50]).p99, p50);
        assert_eq!(Waits::of(vec![]).longest, Duration::ZERO);
    }

    #[test]
    fn every_failure_of_lock_or_fence_is_told() {
        assert_eq!(sound().broken(), None);
        let broken = |damage: fn(&mut Outcome)| {
            let mut outcome = sound();
            damage(&mut outcome);
            outcome.broken().unwrap()
        };
        assert!(broken(|outcome| outcome.under_lock.counter = 99).contains("says 99 after 100"));
        assert!(broken(|outcome| outcome.stalled.second_fence = 1).contains("not greater"));
        assert!(broken(|outcome| outcome.stalled.fenced_accepted = true).contains("not refused"));
    }
}
