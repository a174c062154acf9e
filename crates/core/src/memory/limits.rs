//! The short way to check one limit of one subject.

use super::MemoryStore;
use crate::decision::WrongType;
use crate::key::Key;
use crate::limit::{Ask, Cell, Checked, LimitCell, Quota, check_one};
use crate::time::Timestamp;

impl MemoryStore {
    /// Decides one call on one limit at once, as [`Check`](crate::limit::Check) would on the key of these bytes. Allocates
    /// only where the key is new (a sliding log: where it grows).
    ///
    /// # Errors
    /// The key holds another type. It was left untouched.
    pub fn check_one(&self, key: &[u8], quota: Quota, ask: Ask) -> Result<Checked, WrongType> {
        check_one(quota, ask, At { store: self, key })
    }
}

/// A limit's key in a store.
struct At<'a> {
    store: &'a MemoryStore,
    key: &'a [u8],
}

impl Cell for At<'_> {
    #[inline]
    fn change<R>(self, change: impl FnOnce(&mut LimitCell, Timestamp) -> R) -> R {
        let named = || Key::of_bytes(self.key);
        self.store.tables.limits.with_one(self.key, named, &*self.store.clock, change)
    }
}
