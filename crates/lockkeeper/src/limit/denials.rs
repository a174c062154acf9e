//! Refusals of the store, remembered for a moment, so that those who are refused anyway cost no round trip.
//!
//! What the store refused at cost *c* it refuses at any greater cost, until more has come in. Counted from *sending*, so
//! that nobody is refused here whom the store would admit; and for a second at most, because another process may give back
//! or reset.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::limit::Checked;
use lockkeeper_core::{Keys, Uptime};
use parking_lot::Mutex;

use super::verdict::Verdict;

/// A refusal is remembered for so long at most.
const MAX_AGE: Duration = Duration::from_secs(1);
/// So many are remembered by one limiter.
const MAX_REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Denials {
    known: Mutex<HashMap<Keys, Denial>>,
    /// How many: nobody locks for an empty map.
    count: AtomicUsize,
}

#[derive(Clone, Debug)]
struct Denial {
    /// Refused at this cost, and at any greater one.
    least: u64,
    verdict: Checked,
    /// When the answer came.
    came: Uptime,
    /// Until then.
    until: Uptime,
}

impl Denials {
    /// A refusal of at least that much, as it stands now.
    pub(super) fn of(&self, keys: &Keys, least: u64, now: impl FnOnce() -> Uptime) -> Option<Checked> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut known = self.known.lock();
        let denial = known.get(keys)?;
        let now = now();
        if now >= denial.until {
            known.remove(keys);
            self.count.store(known.len(), Ordering::Relaxed);
            return None;
        }
        // Another cost has another time to wait.
        (denial.least == least).then(|| denial.aged(now))
    }

    /// The store refused; it was asked at `sent`.
    pub(super) fn remember(&self, keys: &Keys, least: u64, verdict: &Verdict, sent: Uptime, now: Uptime) {
        let Verdict::Denied { retry_after, by, detail } = verdict else { return };
        let until = sent.after((*retry_after).min(MAX_AGE));
        if until <= now {
            return;
        }
        let outcome = lockkeeper_core::limit::Outcome::Denied { by: *by };
        let checked = Checked { outcome, standings: detail.standings().clone() };
        let denial = Denial { least, verdict: checked, came: now, until };
        let mut known = self.known.lock();
        if known.len() >= MAX_REMEMBERED && !known.contains_key(keys) {
            known.retain(|_, denial| now < denial.until);
        }
        if known.len() < MAX_REMEMBERED {
            match known.entry(keys.clone()) {
                Entry::Occupied(mut entry) => *entry.get_mut() = denial,
                Entry::Vacant(entry) => drop(entry.insert(denial)),
            }
        }
        self.count.store(known.len(), Ordering::Relaxed);
    }

    /// Something was given back or reset.
    pub(super) fn forget(&self, keys: &Keys) {
        let mut known = self.known.lock();
        known.remove(keys);
        self.count.store(known.len(), Ordering::Relaxed);
    }
}

impl Denial {
    /// The refusal as it stands now: its times have grown shorter.
    fn aged(&self, now: Uptime) -> Checked {
        let age = now.since(self.came);
        let mut checked = self.verdict.clone();
        for standing in &mut checked.standings {
            standing.reset = standing.reset.saturating_sub(age);
            standing.retry_after = standing.retry_after.map(|retry| retry.saturating_sub(age));
        }
        checked
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::limit::{Outcome, Standing};
    use lockkeeper_core::{Key, Prefix};

    use super::*;
    use crate::limit::plan::Plan;
    use crate::limit::verdict::Source;

    const HOUR: Duration = Duration::from_secs(3600);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Uptime {
        Uptime::from_micros(ms * 1000)
    }

    fn keys(name: &str) -> Keys {
        Key::new(&Prefix::empty(), name).unwrap().into()
    }

    /// A refusal to come back after so long.
    fn refusal(retry_after: Duration) -> Verdict {
        let plan = Arc::new(Plan::new(&Prefix::empty(), &Arc::from("a"), &[]).unwrap());
        let standing =
            Standing { limit: 9, remaining: 0, retry_after: Some(retry_after), reset: 2 * retry_after };
        let checked = Checked { outcome: Outcome::Denied { by: 0 }, standings: [standing].into() };
        Verdict::new(&plan, checked, Source::Store)
    }

    fn is_known(denials: &Denials, name: &str, least: u64, now: u64) -> bool {
        denials.of(&keys(name), least, || at(now)).is_some()
    }

    #[test]
    fn a_refusal_counts_from_sending_and_for_a_second_at_most() {
        for (retry_after, until) in [(HOUR, 1_100), (ms(500), 600)] {
            let denials = Denials::default();
            denials.remember(&keys("u"), 1, &refusal(retry_after), at(100), at(400));
            assert!(is_known(&denials, "u", 1, until - 1), "{retry_after:?}");
            assert!(!is_known(&denials, "u", 1, until), "{retry_after:?}");
            assert!(!is_known(&denials, "u", 1, until - 1), "{retry_after:?}: forgotten, not hidden");
        }
        let denials = Denials::default();
        denials.remember(&keys("u"), 1, &refusal(ms(500)), at(100), at(600));
        assert!(!is_known(&denials, "u", 1, 0), "it was over when the answer came");
    }

    #[test]
    fn it_is_of_one_subject_and_one_cost_and_can_be_forgotten() {
        let denials = Denials::default();
        denials.remember(&keys("u"), 5, &refusal(HOUR), at(0), at(0));
        assert!(is_known(&denials, "u", 5, 1) && !is_known(&denials, "v", 5, 1));
        assert!(!is_known(&denials, "u", 4, 1), "less may be there");
        assert!(!is_known(&denials, "u", 6, 1), "more comes later");
        denials.forget(&keys("v"));
        assert!(is_known(&denials, "u", 5, 1));
        denials.forget(&keys("u"));
        assert!(!is_known(&denials, "u", 5, 1));
    }

    #[test]
    fn its_times_grow_shorter_from_the_answer_on() {
        let denials = Denials::default();
        denials.remember(&keys("u"), 1, &refusal(ms(10_000)), at(0), at(400));
        let standing = denials.of(&keys("u"), 1, || at(900)).unwrap().standings[0];
        assert_eq!((standing.retry_after, standing.reset), (Some(ms(9_500)), ms(19_500)));
    }

    #[test]
    fn there_is_room_for_so_many_and_again_when_they_are_over() {
        let denials = Denials::default();
        for number in 0..MAX_REMEMBERED {
            denials.remember(&keys(&format!("{number}")), 1, &refusal(HOUR), at(0), at(0));
        }
        denials.remember(&keys("late"), 1, &refusal(HOUR), at(999), at(999));
        assert!(!is_known(&denials, "late", 1, 999), "no room");
        assert!(is_known(&denials, "0", 1, 999), "who has a place keeps it");
        denials.remember(&keys("late"), 1, &refusal(HOUR), at(1_000), at(1_000));
        assert!(is_known(&denials, "late", 1, 1_000));
        assert_eq!(denials.count.load(Ordering::Relaxed), 1);
    }
}
