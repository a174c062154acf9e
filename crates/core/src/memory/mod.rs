//! The reference store: decisions under a mutex, in this process. For development, tests and single processes.

mod limits;
mod table;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::decision::{Answer, Apply, Decision, State, decide_within};
use crate::error::{Error, ErrorKind};
use crate::idempotency::OnceCell;
use crate::key::{Key, Keys};
use crate::limit::LimitCell;
use crate::lock::LockCell;
use crate::lock::permit::PermitCell;
use crate::time::{Clock, Timestamp};

pub use table::Table;

/// A store inside this process. Cheap to clone; clones share everything.
///
/// Its server clock is the injected [`Clock`]'s wall. A call takes a mutex (one of many, by its key) and no round trip; it never fails except
/// for wrong arguments and wrong types.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    tables: Arc<Tables>,
}

/// One table per kind of state.
#[derive(Debug, Default)]
pub struct Tables {
    locks: Table<LockCell>,
    limits: Table<LimitCell>,
    permits: Table<PermitCell>,
    onces: Table<OnceCell>,
}

/// A state that the memory store has a table for.
pub trait InMemory: State {
    /// Its table.
    fn table(tables: &Tables) -> &Table<Self>;
}

impl InMemory for LockCell {
    fn table(tables: &Tables) -> &Table<Self> {
        &tables.locks
    }
}

impl InMemory for PermitCell {
    fn table(tables: &Tables) -> &Table<Self> {
        &tables.permits
    }
}

impl InMemory for OnceCell {
    fn table(tables: &Tables) -> &Table<Self> {
        &tables.onces
    }
}

impl InMemory for LimitCell {
    fn table(tables: &Tables) -> &Table<Self> {
        &tables.limits
    }
}

impl MemoryStore {
    /// An empty store on `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, tables: Arc::default() }
    }

    /// The store's time.
    pub fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    /// Applies a decision at once, without a future.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn apply_now<D>(
        &self,
        at: &Keys,
        mut decision: D,
        within: Duration,
    ) -> Result<Answer<D::Reply>, Error>
    where
        D: Decision<State: InMemory>,
    {
        let (now, verdict) = D::State::table(&self.tables).with_cells(at, &*self.clock, |cells, now| {
            decision.set_not_after(now.after(within));
            (now, decide_within(&decision, cells, now))
        });
        match verdict {
            Ok(Ok(reply)) => Ok(Answer { reply, at: now, sent: 1 }),
            Ok(Err(_too_late)) => Err(Error::new(ErrorKind::TooLate, D::NAME, "").with_key(at)),
            Err(wrong) => Err(wrong.into_error::<D>(at)),
        }
    }

    /// The lock keys with this prefix, in byte order, after `after`; at most `count` of them, and whether more follow.
    pub fn scan(&self, prefix: &[u8], after: Option<&Key>, count: usize) -> (Vec<Key>, bool) {
        let now = self.clock.wall();
        let is_listed = |key: &Key, cell: &LockCell| {
            cell.is_taken(now) && key.as_bytes().starts_with(prefix) && after.is_none_or(|after| key > after)
        };
        // The smallest ones, and one more to know whether there are more.
        let mut page = BTreeSet::new();
        self.tables.locks.each(|key, cell| {
            if is_listed(key, cell) {
                page.insert(key.clone());
            }
            if page.len() > count.saturating_add(1) {
                page.pop_last();
            }
        });
        let more = page.len() > count;
        (page.into_iter().take(count).collect(), more)
    }

    /// Changes a cell behind everybody's back, as a foreign client would. For tests of what others may leave behind.
    pub fn tamper<S: InMemory>(&self, key: &Key, change: impl FnOnce(&mut S)) {
        S::table(&self.tables).with_cells(&Keys::from(key.clone()), &*self.clock, |cells, now| {
            cells[0].expire(now);
            change(&mut cells[0]);
        });
    }

    /// How many limits are kept, expired ones perhaps included.
    pub fn limits_len(&self) -> usize {
        self.tables.limits.len()
    }

    /// This limit is kept.
    pub fn has_limit(&self, key: &Key) -> bool {
        self.tables.limits.contains(key)
    }

    /// How many keys are kept, expired ones not counted.
    pub fn len(&self) -> usize {
        let now = self.clock.wall();
        let tables = &self.tables;
        tables.locks.live(now) + tables.limits.live(now) + tables.permits.live(now) + tables.onces.live(now)
    }

    /// Nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<D: Decision<State: InMemory>> Apply<D> for MemoryStore {
    async fn apply(&self, at: &Keys, decision: D, within: Duration) -> Result<Answer<D::Reply>, Error> {
        self.apply_now(at, decision, within)
    }
}
