//! Presence: who waits for a lock, noted beside it for a short time, so that a holder can see that others wait and a
//! person can see who they are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::key::Escaped;
use crate::time::{Timestamp, micros_of};

/// How long a note of presence lasts. Who goes on waiting renews it.
pub const PRESENCE: Duration = Duration::from_millis(2500);
/// So many keepers are noted beside one lock; more wait unseen.
pub const MAX_PRESENT: usize = 256;
/// The longest name of a keeper, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The name of a keeper that waits: unique to it, and readable.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeeperName(Arc<[u8]>);

impl KeeperName {
    /// The first 256 bytes of `name`.
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        let name = name.as_ref();
        Self(name[..name.len().min(MAX_NAME_BYTES)].into())
    }

    /// The name of one of its lines.
    pub fn line(&self, number: u64) -> Self {
        Self::new([&self.0, format!("#{number}").as_bytes()].concat())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for KeeperName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.0).fmt(f)
    }
}

impl fmt::Debug for KeeperName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeeperName({self})")
    }
}

/// A keeper, and how many of its callers wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Which keeper.
    pub keeper: KeeperName,
    /// How many callers.
    pub count: u32,
}

impl Waiter {
    /// How many callers wait, over all these keepers.
    pub fn total(waiters: &[Self]) -> u64 {
        waiters.iter().map(|waiter| u64::from(waiter.count)).sum()
    }
}

/// The notes beside one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present(BTreeMap<KeeperName, Note>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    count: u32,
    expires_ms: u64,
}

impl Present {
    pub(super) fn expire(&mut self, now_ms: u64) {
        // One that ends too late is none of ours, or the clock was set back: it goes as well.
        let latest_ms = now_ms + micros_of(PRESENCE) / 1000;
        self.0.retain(|_, note| (now_ms..=latest_ms).contains(&note.expires_ms));
    }

    /// Nobody is noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes `waiter`, unless the notes are full.
    pub(super) fn note(&mut self, waiter: &Waiter, now: Timestamp) {
        if self.0.len() >= MAX_PRESENT && !self.0.contains_key(&waiter.keeper) {
            return;
        }
        let expires_ms = now.as_millis() + micros_of(PRESENCE) / 1000;
        self.0.insert(waiter.keeper.clone(), Note { count: waiter.count, expires_ms });
    }

    pub(super) fn remove(&mut self, keeper: &KeeperName) {
        self.0.remove(keeper);
    }

    /// Somebody other than `keeper` waits.
    pub(super) fn has_others_than(&self, keeper: &KeeperName) -> bool {
        self.0.keys().any(|other| other != keeper)
    }

    /// Who waits, by name.
    pub(super) fn waiters(&self) -> Vec<Waiter> {
        self.0.iter().map(|(keeper, note)| Waiter { keeper: keeper.clone(), count: note.count }).collect()
    }
}
