//! The short way to check one limit of one subject.

use super::MemoryStore;
use crate::decision::WrongType;
use crate::key::Key;
use crate::limit::{Ask, Checked, LimitCell, Quota, check_cell};

impl MemoryStore {
    /// Decides one call on one limit at once, as [`Check`](crate::limit::Check) would on the key of these bytes. Allocates
    /// only where the key is new (a sliding log: where it grows).
    ///
    /// # Errors
    /// The key holds another type. It was left untouched.
    pub fn check_one(&self, key: &[u8], quota: Quota, ask: Ask) -> Result<Checked, WrongType> {
        let named = || Key::of_bytes(key);
        self.tables
            .limits
            .with_one(key, named, &*self.clock, |cell: &mut LimitCell, now| check_cell(cell, quota, ask, now))
    }
}
