//! The keys of one kind, in shards with a mutex each.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::decision::State;
use crate::key::{Key, Keys};
use crate::time::{Clock, Timestamp};

/// How many mutexes a table has; a power of two.
const SHARDS: usize = 64;
/// A shard of fewer keys is not worth sweeping because it grew, nor shrinking.
const SMALLEST_SWEEP: usize = 64;
/// A shard is swept at the latest after so many calls for each of its keys, and [`IDLE_SWEEP`] more; with it the next one
/// in turn, which perhaps nobody calls. So what has expired goes also where no new key comes, and a call pays for a
/// fraction of a key.
const CALLS_PER_KEY: usize = 8;
const IDLE_SWEEP: usize = 1024;

/// The keys of one kind.
///
/// Keys may come from strangers, so the hash has a seed that nobody outside sees; nothing shows the order of keys.
#[derive(Debug)]
pub struct Table<S> {
    hasher: RandomState,
    shards: Box<[Padded<S>]>,
    /// Whose turn it is to be swept although nobody called.
    turn: AtomicUsize,
}

/// On cache lines of its own, so that neighbours do not slow each other down.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<S>(Mutex<Shard<S>>);

#[derive(Debug)]
struct Shard<S> {
    cells: HashTable<(Key, S)>,
    /// Swept when there are so many keys.
    sweep_at: usize,
    /// Or after so many calls more.
    sweep_in: usize,
}

impl<S> Default for Table<S> {
    fn default() -> Self {
        let shard = || Shard { cells: HashTable::new(), sweep_at: SMALLEST_SWEEP, sweep_in: IDLE_SWEEP };
        let shards = (0..SHARDS).map(|_| Padded(Mutex::new(shard()))).collect();
        Self { hasher: RandomState::default(), shards, turn: AtomicUsize::new(0) }
    }
}

impl<S: State> Table<S> {
    /// Runs `change` on the cells of `keys`, in place where there is one key. The time is read when all of them are held.
    pub(super) fn with_cells<R>(
        &self,
        keys: &Keys,
        clock: &dyn Clock,
        change: impl FnOnce(&mut [S], Timestamp) -> R,
    ) -> R {
        match keys.as_slice() {
            [key] => self.with_one(
                key.as_bytes(),
                || key.clone(),
                clock,
                |cell, now| change(std::slice::from_mut(cell), now),
            ),
            keys => self.with_many(keys, clock, change),
        }
    }

    /// Runs `change` on the cell of the key of these bytes; `named` makes that key where it has to be kept and was not.
    #[inline]
    pub(super) fn with_one<R>(
        &self,
        key: &[u8],
        named: impl FnOnce() -> Key,
        clock: &dyn Clock,
        change: impl FnOnce(&mut S, Timestamp) -> R,
    ) -> R {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shards[shard_of(hash)].0.lock();
        let now = clock.wall();
        let mut fresh = None;
        let cell = match shard.find(hash, key) {
            Some((_, cell)) => cell,
            None => fresh.insert(S::default()),
        };
        let result = change(cell, now);
        if let Some(cell) = fresh {
            shard.put(hash, named(), cell, &self.hasher);
        }
        if shard.tend(now, &self.hasher) {
            drop(shard);
            self.sweep_in_turn(now);
        }
        result
    }

    #[cold]
    fn sweep_in_turn(&self, now: Timestamp) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % SHARDS;
        // Who holds it calls it.
        if let Some(mut shard) = self.shards[turn].0.try_lock() {
            shard.sweep(now, &self.hasher);
        }
    }

    fn with_many<R>(
        &self,
        keys: &[Key],
        clock: &dyn Clock,
        change: impl FnOnce(&mut [S], Timestamp) -> R,
    ) -> R {
        let hashes: SmallVec<[u64; 8]> =
            keys.iter().map(|key| self.hasher.hash_one(key.as_bytes())).collect();
        let mut held = self.hold(&hashes);
        let now = clock.wall();
        let mut cells: SmallVec<[S; 8]> =
            keys.iter().zip(&hashes).map(|(key, hash)| held.of(*hash).take(*hash, key)).collect();
        let result = change(&mut cells, now);
        for ((key, hash), cell) in keys.iter().zip(&hashes).zip(cells) {
            held.of(*hash).put(*hash, key.clone(), cell, &self.hasher);
        }
        let swept =
            held.0.iter_mut().filter_map(|(_, shard)| shard.tend(now, &self.hasher).then_some(())).count();
        drop(held);
        (0..swept).for_each(|_| self.sweep_in_turn(now));
        result
    }

    /// Locks the shards of `hashes`, each once and in their order, so that nobody waits in a circle.
    fn hold(&self, hashes: &[u64]) -> Held<'_, S> {
        let mut wanted: SmallVec<[usize; 8]> = hashes.iter().copied().map(shard_of).collect();
        wanted.sort_unstable();
        wanted.dedup();
        Held(wanted.into_iter().map(|index| (index, self.shards[index].0.lock())).collect())
    }

    /// Shows every key and its cell, one shard after another.
    pub(super) fn each(&self, mut look: impl FnMut(&Key, &S)) {
        for shard in &self.shards {
            shard.0.lock().cells.iter().for_each(|(key, cell)| look(key, cell));
        }
    }

    /// The key is kept, perhaps expired.
    pub(super) fn contains(&self, key: &Key) -> bool {
        let hash = self.hasher.hash_one(key.as_bytes());
        self.shards[shard_of(hash)].0.lock().find(hash, key.as_bytes()).is_some()
    }

    /// How many keys are kept, expired ones perhaps included. Looks at every shard.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().cells.len()).sum()
    }

    /// For how many keys there is memory.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().cells.capacity()).sum()
    }

    /// Forgets what has expired, and counts the rest.
    pub(super) fn live(&self, now: Timestamp) -> usize {
        let swept = self.shards.iter().map(|shard| {
            let mut shard = shard.0.lock();
            shard.sweep(now, &self.hasher);
            shard.cells.len()
        });
        swept.sum()
    }
}

/// Bits that the shard's own table does not look at.
#[inline]
fn shard_of(hash: u64) -> usize {
    usize::try_from(hash >> 40).unwrap_or(0) % SHARDS
}

/// The shards of several keys, by index.
struct Held<'a, S>(SmallVec<[(usize, MutexGuard<'a, Shard<S>>); 8]>);

impl<S> Held<'_, S> {
    fn of(&mut self, hash: u64) -> &mut Shard<S> {
        let at = self.0.binary_search_by_key(&shard_of(hash), |(index, _)| *index);
        // Every hash that is asked for was held.
        &mut self.0[at.unwrap_or(0)].1
    }
}

impl<S: State> Shard<S> {
    #[inline]
    fn find(&mut self, hash: u64, key: &[u8]) -> Option<&mut (Key, S)> {
        self.cells.find_mut(hash, |(known, _)| known.as_bytes() == key)
    }

    fn take(&mut self, hash: u64, key: &Key) -> S {
        let entry = self.cells.find_entry(hash, |(known, _)| known == key);
        entry.map_or_else(|_| S::default(), |entry| entry.remove().0.1)
    }

    #[inline]
    fn put(&mut self, hash: u64, key: Key, cell: S, hasher: &RandomState) {
        if !cell.is_empty() {
            self.cells.insert_unique(hash, (key, cell), |(key, _)| hasher.hash_one(key.as_bytes()));
        }
    }

    /// One call more. Answers whether it was time to sweep.
    #[inline]
    fn tend(&mut self, now: Timestamp, hasher: &RandomState) -> bool {
        self.sweep_in = self.sweep_in.saturating_sub(1);
        let is_time = self.sweep_in == 0 || self.cells.len() >= self.sweep_at;
        if is_time {
            self.sweep(now, hasher);
        }
        is_time
    }

    /// Forgets what has expired, and returns memory that most of it left behind.
    #[cold]
    fn sweep(&mut self, now: Timestamp, hasher: &RandomState) {
        self.cells.retain(|(_, cell)| {
            cell.expire(now);
            !cell.is_empty()
        });
        let kept = self.cells.len();
        if self.cells.capacity() > (kept * 4).max(SMALLEST_SWEEP) {
            self.cells.shrink_to(kept * 2, |(key, _)| hasher.hash_one(key.as_bytes()));
        }
        self.sweep_at = (kept * 2).max(SMALLEST_SWEEP);
        self.sweep_in = kept * CALLS_PER_KEY + IDLE_SWEEP;
    }
}
