//! This process's share of a limit, for the time when the store is away.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::limit::{Ask, Check, Checked, Limit, Quota};
use lockkeeper_core::{Clock, Error, Key, Keys, MemoryStore, Timestamp};

use super::plan::Plan;

/// So many subjects have a share of their own; those beyond have one together.
const MAX_SUBJECTS: usize = 100_000;
const WITHIN: Duration = Duration::from_secs(1);

/// The shares, kept warm while the store is there.
pub(super) struct Shares {
    store: MemoryStore,
    /// `None`: a limit is smaller than the number of instances, so nothing is left.
    quotas: Option<Arc<[Quota]>>,
}

impl Shares {
    pub(super) fn new(plan: &Plan, instances: u32, clock: Arc<dyn Clock>) -> Self {
        let shares = plan.quotas.iter().map(|quota| Limit::Quota(*quota).share_of(instances).quota());
        Self { store: MemoryStore::new(clock), quotas: shares.collect() }
    }

    /// The store admitted so much: it is charged to each share as well, as far as that has any left.
    pub(super) fn note(&self, keys: &Keys, granted: u64) {
        let (Some(quotas), Some(at)) = (&self.quotas, self.place_of(keys)) else { return };
        for (quota, key) in quotas.iter().zip(at.as_slice()) {
            let _ = self.store.check_one(key.as_bytes(), *quota, Ask::up_to(granted));
        }
    }

    /// Decides within the share. `None`: there is no share.
    pub(super) fn decide(&self, keys: &Keys, ask: Ask) -> Option<Result<Checked, Error>> {
        let quotas = self.quotas.clone()?;
        let check = Check { quotas, asks: [ask].into(), not_after: Timestamp::MAX };
        let answer = self.store.apply_now(&*self.place_of(keys)?, check, WITHIN);
        Some(answer.map(|mut answer| answer.reply.checked.remove(0)))
    }

    /// Where what `keys` used is kept.
    fn place_of<'a>(&self, keys: &'a Keys) -> Option<Cow<'a, Keys>> {
        let has_room = self.store.has_limit(keys.at(0)) || self.store.limits_len() < MAX_SUBJECTS;
        if has_room { Some(Cow::Borrowed(keys)) } else { overflow(keys).map(Cow::Owned) }
    }
}

/// The keys that those without a share of their own have together.
fn overflow(keys: &Keys) -> Option<Keys> {
    let empty = lockkeeper_core::Prefix::empty();
    let names = (0..keys.as_slice().len()).map(|at| Key::new(&empty, format!("overflow:{at}")));
    Keys::in_order(names.collect::<Result<_, _>>().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{ManualClock, Prefix};

    use super::*;

    fn shares(limits: &[&str], instances: u32) -> Shares {
        let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
        let plan = Plan::new(&Prefix::empty(), &Arc::from("a"), &limits).unwrap();
        Shares::new(&plan, instances, Arc::new(ManualClock::default()))
    }

    fn keys(name: &str) -> Keys {
        Key::new(&Prefix::empty(), name).unwrap().into()
    }

    fn granted(shares: &Shares, name: &str, most: u64) -> u64 {
        shares.decide(&keys(name), Ask::up_to(most)).unwrap().unwrap().granted()
    }

    #[test]
    fn it_is_the_limit_divided_and_less_what_the_store_admitted() {
        let shares = shares(&["100/h"], 10);
        shares.note(&keys("u"), 4);
        assert_eq!((granted(&shares, "u", 100), granted(&shares, "u", 1)), (6, 0));
        assert_eq!(granted(&shares, "v", 100), 10);
        shares.note(&keys("w"), 100);
        assert_eq!(granted(&shares, "w", 1), 0, "more than the share was used");
    }

    #[test]
    fn a_limit_smaller_than_the_number_of_instances_leaves_none() {
        assert!(shares(&["9/h"], 10).decide(&keys("u"), Ask::whole(1)).is_none());
        assert!(shares(&["100/h", "9/d"], 10).decide(&keys("u"), Ask::whole(1)).is_none());
    }

    #[test]
    fn those_beyond_the_bound_have_one_share_together_and_the_others_keep_theirs() {
        let shares = shares(&["20/h"], 10);
        for number in 0..MAX_SUBJECTS {
            shares.note(&keys(&format!("{number}")), 1);
        }
        assert_eq!(granted(&shares, "7", 100), 1, "its own, of which one was used");
        assert_eq!((granted(&shares, "x", 1), granted(&shares, "y", 1), granted(&shares, "z", 1)), (1, 1, 0));
        assert_eq!(granted(&shares, "8", 100), 1);
        assert!(shares.store.limits_len() <= MAX_SUBJECTS + 1, "and no place of their own");
    }
}
