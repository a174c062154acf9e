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
