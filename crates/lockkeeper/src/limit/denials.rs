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
