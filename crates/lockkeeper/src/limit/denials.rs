//! Refusals of the store, remembered for a moment, so that those who are refused anyway cost no round trip.
//!
//! What the store refused at a cost it refuses at that cost until more has come in. Counted from *sending*, so that nobody
//! is refused here whom the store would admit; and for a second at most, because another process may give back or reset.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::limit::Checked;
use lockkeeper_core::{Keys, Uptime};
use parking_lot::Mutex;

use super::returned::Returned;
use super::verdict::Verdict;

/// A refusal is remembered for so long at most.
const MAX_AGE: Duration = Duration::from_secs(1);
/// So many are remembered by one limiter.
const MAX_REMEMBERED: usize = 10_000;
/// Where so many are remembered, those that are over are looked for so often.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Denials {
    known: Mutex<Known>,
    /// How many: nobody locks for an empty map.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Known {
    denials: HashMap<Keys, Denial>,
    next_sweep: Uptime,
}

#[derive(Clone, Debug)]
struct Denial {
    /// Refused at this cost.
    least: u64,
    verdict: Checked,
    /// When the store was asked.
    sent: Uptime,
    /// When the answer came.
    came: Uptime,
    /// Until then.
    until: Uptime,
}

impl Denials {
    /// A refusal of that much, as it stands now.
    pub(super) fn of(&self, keys: &Keys, least: u64, now: Uptime, returned: &Returned) -> Option<Checked> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut known = self.known.lock();
        let denial = known.denials.get(keys)?;
        if now >= denial.until || returned.may_have_come_since(keys, denial.sent) {
            known.denials.remove(keys);
            self.count.store(known.denials.len(), Ordering::Relaxed);
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
        let denial = Denial { least, verdict: checked, sent, came: now, until };
        let mut known = self.known.lock();
        known.put(keys, denial, now);
        self.count.store(known.denials.len(), Ordering::Relaxed);
    }
}

impl Known {
    fn put(&mut self, keys: &Keys, denial: Denial, now: Uptime) {
        if let Some(earlier) = self.denials.get_mut(keys) {
            *earlier = denial;
            return;
        }
        // Not at each refusal: a flood of subjects would pay for looking at all of them.
        if self.denials.len() >= MAX_REMEMBERED && now >= self.next_sweep {
            self.next_sweep = now.after(SWEEP_EVERY);
            self.denials.retain(|_, denial| now < denial.until);
        }
        if self.denials.len() < MAX_REMEMBERED {
            self.denials.insert(keys.clone(), denial);
        }
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

    fn at(ms: u64) -> Uptime {
        Uptime::from_micros(ms * 1000)
    }

    fn keys(number: usize) -> Keys {
        Keys::from(Key::new(&Prefix::empty(), number.to_string()).unwrap())
    }

    fn denial(from: Uptime) -> Denial {
        let verdict = Checked { outcome: Outcome::Denied { by: 0 }, standings: Default::default() };
        Denial { least: 1, verdict, sent: from, came: from, until: from.after(Duration::from_millis(50)) }
    }

    #[test]
    fn a_flood_of_subjects_is_bounded_and_looked_through_seldom() {
        let mut known = Known::default();
        (0..MAX_REMEMBERED + 5).for_each(|number| known.put(&keys(number), denial(at(1)), at(1)));
        assert_eq!((known.denials.len(), known.next_sweep), (MAX_REMEMBERED, at(101)));
        known.put(&keys(MAX_REMEMBERED), denial(at(60)), at(60));
        assert!(
            !known.denials.contains_key(&keys(MAX_REMEMBERED)),
            "all are over, but it is too soon to look"
        );
        known.put(&keys(3), denial(at(60)), at(60));
        assert_eq!(known.denials[&keys(3)].until, at(110), "what is known is written anew");
        known.put(&keys(MAX_REMEMBERED), denial(at(101)), at(101));
        assert_eq!(known.denials.len(), 2);
    }

    #[test]
    fn a_refusal_from_before_something_was_given_back_is_not_remembered() {
        let (denials, returned) = (Denials::default(), Returned::default());
        denials.known.lock().put(&keys(1), denial(at(1)), at(1));
        denials.count.store(1, Ordering::Relaxed);
        assert!(denials.of(&keys(1), 2, at(2), &returned).is_none(), "another cost");
        assert!(denials.of(&keys(1), 1, at(2), &returned).is_some());
        returned.note(&keys(1), at(0));
        assert!(denials.of(&keys(1), 1, at(2), &returned).is_some(), "it was sent after that");
        // An answer that was on its way when something was given back.
        returned.note(&keys(1), at(2));
        assert!(denials.of(&keys(1), 1, at(3), &returned).is_none());
        assert_eq!(denials.count.load(Ordering::Relaxed), 0);
    }

    const HOUR: Duration = Duration::from_secs(3600);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A refusal to come back after so long.
    fn refusal(retry_after: Duration) -> Verdict {
        let plan = Arc::new(Plan::new(&Prefix::empty(), &Arc::from("a"), &[]).unwrap());
        let standing =
            Standing { limit: 9, remaining: 0, retry_after: Some(retry_after), reset: 2 * retry_after };
        let checked = Checked { outcome: Outcome::Denied { by: 0 }, standings: [standing].into() };
        Verdict::new(&plan, checked, Source::Store)
    }

    fn is_known(denials: &Denials, least: u64, now: u64) -> bool {
        denials.of(&keys(1), least, at(now), &Returned::default()).is_some()
    }

    #[test]
    fn a_refusal_counts_from_sending_and_for_a_second_at_most() {
        for (retry_after, until) in [(HOUR, 1_100), (ms(500), 600)] {
            let denials = Denials::default();
            denials.remember(&keys(1), 1, &refusal(retry_after), at(100), at(400));
            assert!(is_known(&denials, 1, until - 1), "{retry_after:?}");
            assert!(!is_known(&denials, 1, until), "{retry_after:?}");
            assert!(!is_known(&denials, 1, until - 1), "{retry_after:?}: forgotten, not hidden");
        }
        let denials = Denials::default();
        denials.remember(&keys(1), 1, &refusal(ms(500)), at(100), at(600));
        assert!(!is_known(&denials, 1, 0), "it was over when the answer came");
    }

    #[test]
    fn it_is_of_one_cost_and_its_times_grow_shorter_from_the_answer_on() {
        let denials = Denials::default();
        denials.remember(&keys(1), 5, &refusal(ms(10_000)), at(100), at(400));
        assert!(!is_known(&denials, 4, 900), "less may be there");
        assert!(!is_known(&denials, 6, 900), "more comes later");
        let standing = denials.of(&keys(1), 5, at(900), &Returned::default()).unwrap().standings[0];
        assert_eq!((standing.retry_after, standing.reset), (Some(ms(9_500)), ms(19_500)));
    }
}
