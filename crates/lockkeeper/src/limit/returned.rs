//! When this process last gave something back, so that no refusal from before that is remembered.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::{Keys, Uptime};

/// Keys share so many stamps. A stamp that another key left costs a round trip, and nothing else.
const STAMPS: usize = 1024;

/// Of a keeper: a limiter, its clones with other terms and the joints that it is in all count under the same keys.
#[derive(Debug)]
pub(crate) struct Returned {
    hasher: RandomState,
    /// Microseconds of uptime.
    stamps: Box<[AtomicU64]>,
}

impl Default for Returned {
    fn default() -> Self {
        Self { hasher: RandomState::new(), stamps: (0..STAMPS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Returned {
    /// Something was given back to `keys`, or they were reset; the answer came `now`.
    pub(super) fn note(&self, keys: &Keys, now: Uptime) {
        self.stamps_of(keys).for_each(|stamp| _ = stamp.fetch_max(now.as_micros(), Ordering::AcqRel));
    }

    /// A refusal of a check that was sent then may be from before something was given back.
    pub(super) fn may_have_come_since(&self, keys: &Keys, sent: Uptime) -> bool {
        self.stamps_of(keys).any(|stamp| stamp.load(Ordering::Acquire) >= sent.as_micros())
    }

    fn stamps_of(&self, keys: &Keys) -> impl Iterator<Item = &AtomicU64> {
        let at = |hash: u64| hash as usize % self.stamps.len();
        keys.as_slice().iter().map(move |key| &self.stamps[at(self.hasher.hash_one(key.as_bytes()))])
    }
}
