//! The reference store: decisions under a mutex, in this process. For development, tests and single processes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::decision::{Answer, Apply, Decision, State, decide_within};
use crate::error::{Error, ErrorKind};
use crate::key::{Key, Keys};
use crate::lock::LockCell;
use crate::lock::permit::PermitCell;
use crate::time::{Clock, Timestamp};

/// A store inside this process. Cheap to clone; clones share everything.
///
/// Its server clock is the injected [`Clock`]'s wall. A call takes a mutex and no round trip; it never fails except
/// for wrong arguments and wrong types.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    tables: Arc<Mutex<Tables>>,
}

/// One table per kind of state.
#[derive(Debug, Default)]
pub struct Tables {
    locks: Table<LockCell>,
    permits: Table<PermitCell>,
}

/// The keys of one kind.
#[derive(Debug)]
pub struct Table<S> {
    cells: HashMap<Key, S>,
    sweep_at: usize,
}

/// A state that the memory store has a table for.
pub trait InMemory: State {
    /// Its table.
    fn table(tables: &mut Tables) -> &mut Table<Self>;
}

impl InMemory for LockCell {
    fn table(tables: &mut Tables) -> &mut Table<Self> {
        &mut tables.locks
    }
}

impl InMemory for PermitCell {
    fn table(tables: &mut Tables) -> &mut Table<Self> {
        &mut tables.permits
    }
}

/// A table is swept when it has doubled since the last sweep, and never below this size.
const SMALLEST_SWEEP: usize = 1024;

impl<S> Default for Table<S> {
    fn default() -> Self {
        Self { cells: HashMap::new(), sweep_at: SMALLEST_SWEEP }
    }
}

impl<S: State> Table<S> {
    /// Runs `change` on the cells of `keys`, in place where there is one key.
    fn with_cells<R>(&mut self, keys: &Keys, now: Timestamp, change: impl FnOnce(&mut [S]) -> R) -> R {
        let result = match keys.as_slice() {
            [key] => self.with_one(key, change),
            keys => self.with_many(keys, change),
        };
        if self.cells.len() >= self.sweep_at {
            self.sweep(now);
        }
        result
    }

    fn with_one<R>(&mut self, key: &Key, change: impl FnOnce(&mut [S]) -> R) -> R {
        if let Some(cell) = self.cells.get_mut(key) {
            return change(std::slice::from_mut(cell));
        }
        let mut cell = S::default();
        let result = change(std::slice::from_mut(&mut cell));
        if !cell.is_empty() {
            self.cells.insert(key.clone(), cell);
        }
        result
    }

    fn with_many<R>(&mut self, keys: &[Key], change: impl FnOnce(&mut [S]) -> R) -> R {
        let mut cells: Vec<S> = keys.iter().map(|key| self.cells.remove(key).unwrap_or_default()).collect();
        let result = change(&mut cells);
        let kept = keys.iter().cloned().zip(cells).filter(|(_, cell)| !cell.is_empty());
        self.cells.extend(kept);
        result
    }

    /// Forgets what has expired. Amortised: the next sweep comes when the table has doubled.
    fn sweep(&mut self, now: Timestamp) {
        self.cells.retain(|_, cell| {
            cell.expire(now);
            !cell.is_empty()
        });
        self.sweep_at = (self.cells.len() * 2).max(SMALLEST_SWEEP);
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
        let mut tables = self.tables.lock();
        let now = self.clock.wall();
        decision.set_not_after(now.after(within));
        let table = D::State::table(&mut tables);
        let verdict = table.with_cells(at, now, |cells| decide_within(&decision, cells, now));
        drop(tables);
        match verdict {
            Ok(Ok(reply)) => Ok(Answer { reply, at: now, sent: 1 }),
            Ok(Err(_too_late)) => Err(Error::new(ErrorKind::TooLate, D::NAME, "").with_key(at)),
            Err(wrong) => Err(wrong.into_error::<D>(at)),
        }
    }

    /// The lock keys with this prefix, in byte order, after `after`; at most `count` of them, and whether more follow.
    pub fn scan(&self, prefix: &[u8], after: Option<&Key>, count: usize) -> (Vec<Key>, bool) {
        let now = self.clock.wall();
        let tables = self.tables.lock();
        let is_listed = |key: &Key, cell: &LockCell| {
            cell.is_taken(now) && key.as_bytes().starts_with(prefix) && after.is_none_or(|after| key > after)
        };
        // The smallest ones, and one more to know whether there are more.
        let mut page = BTreeSet::new();
        for (key, _) in tables.locks.cells.iter().filter(|(key, cell)| is_listed(key, cell)) {
            page.insert(key);
            if page.len() - 1 > count {
                page.pop_last();
            }
        }
        let more = page.len() > count;
        (page.into_iter().take(count).cloned().collect(), more)
    }

    /// Changes a cell behind everybody's back, as a foreign client would. For tests of what others may leave behind.
    pub fn tamper<S: InMemory>(&self, key: &Key, change: impl FnOnce(&mut S)) {
        let now = self.clock.wall();
        let at = Keys::from(key.clone());
        S::table(&mut self.tables.lock()).with_cells(&at, now, |cells| {
            cells[0].expire(now);
            change(&mut cells[0]);
        });
    }

    /// How many keys are kept, expired ones not counted.
    pub fn len(&self) -> usize {
        let now = self.clock.wall();
        let mut tables = self.tables.lock();
        tables.locks.sweep(now);
        tables.permits.sweep(now);
        tables.locks.cells.len() + tables.permits.cells.len()
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
