//! The callers of one keeper who wait for permits of one name: first come, first served, and only the first one asks
//! the server.
//!
//! Invariant 8: a place is a future of a fair semaphore, so dropping it leaves the line.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::{Error, Keys, Uptime};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::outcome::Full;

/// When nobody has asked for so long, the task of whoever has the turn is not polled: somebody behind asks.
const STALLED: Duration = Duration::from_secs(1);

/// All lines of one keeper.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<Keys, Weak<Line>>>,
    waiting: AtomicUsize,
    held: AtomicUsize,
}

/// One line. It lives as long as anybody asks for, holds or gives back a permit of its name.
#[derive(Debug)]
pub(crate) struct Line {
    keys: Keys,
    lines: Weak<Lines>,
    /// One permit: the turn to ask.
    turns: Semaphore,
    waiting: AtomicUsize,
    /// A permit of this name was given back by this process.
    freed: Notify,
    /// When somebody asked last: microseconds of uptime.
    asked: AtomicU64,
    /// Why nobody was let in when somebody asked last.
    last: Mutex<Option<Obstacle>>,
}

/// Why no permit was taken.
#[derive(Clone, Debug)]
pub(super) enum Obstacle {
    Full(Full),
    Trouble(Error),
}

impl Lines {
    /// The line for `keys`.
    pub(super) fn of(self: &Arc<Self>, keys: &Keys) -> Arc<Line> {
        let mut lines = self.lines.lock();
        if let Some(line) = lines.get(keys).and_then(Weak::upgrade) {
            return line;
        }
        let line = Arc::new(Line {
            keys: keys.clone(),
            lines: Arc::downgrade(self),
            turns: Semaphore::new(1),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
            asked: AtomicU64::new(0),
            last: Mutex::default(),
        });
        lines.insert(keys.clone(), Arc::downgrade(&line));
        line
    }

    /// How many wait, over all lines.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many permits are held.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn took(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// The keeper is closed: nobody waits any more. Who makes a line from now on looks whether it is.
    pub(crate) fn close(&self) {
        let all: Vec<_> = self.lines.lock().values().filter_map(Weak::upgrade).collect();
        for line in all {
            line.turns.close();
            line.freed.notify_one();
        }
    }
}

impl Line {
    /// Somebody stands in line.
    pub(super) fn is_occupied(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Counts the caller as waiting until it is dropped.
    pub(super) fn stand(&self) -> Standing<'_> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        if let Some(lines) = self.lines.upgrade() {
            lines.waiting.fetch_add(1, Ordering::Relaxed);
        }
        Standing { line: self }
    }

    /// The turn, if nobody has it.
    pub(super) fn turn_at_once(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.try_acquire().ok()
    }

    /// The turn, after all who came before. `None`: the keeper was closed.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// A permit was given back here: whoever has the turn asks at once.
    pub(crate) fn freed(&self) {
        self.freed.notify_one();
    }

    /// Waits for [`freed`](Self::freed); at once if that was said while nobody waited.
    pub(super) async fn wait_for_freed(&self) {
        self.freed.notified().await;
    }

    /// Somebody asks the server.
    pub(super) fn asks(&self, now: Uptime) {
        self.asked.fetch_max(now.as_micros(), Ordering::AcqRel);
    }

    /// When whoever has the turn counts as stalled, unless they ask before.
    pub(super) fn stalls_at(&self) -> Uptime {
        Uptime::from_micros(self.asked.load(Ordering::Acquire)).after(STALLED)
    }

    /// Whoever has the turn is stalled, and the caller asks instead: true for one caller.
    pub(super) fn asks_for_stalled(&self, now: Uptime) -> bool {
        let asked = self.asked.load(Ordering::Acquire);
        let is_stalled = now >= Uptime::from_micros(asked).after(STALLED);
        let swap = |now| self.asked.compare_exchange(asked, now, Ordering::AcqRel, Ordering::Relaxed);
        is_stalled && swap(now.as_micros()).is_ok()
    }

    pub(super) fn last(&self) -> Option<Obstacle> {
        self.last.lock().clone()
    }

    pub(super) fn set_last(&self, obstacle: Obstacle) {
        *self.last.lock() = Some(obstacle);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Some(lines) = self.lines.upgrade() else { return };
        let mut lines = lines.lines.lock();
        // Another one may stand for the same name by now.
        if lines.get(&self.keys).is_some_and(|line| line.strong_count() == 0) {
            lines.remove(&self.keys);
        }
    }
}

/// One who waits.
pub(super) struct Standing<'a> {
    line: &'a Line,
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.line.waiting.fetch_sub(1, Ordering::AcqRel);
        if let Some(lines) = self.line.lines.upgrade() {
            lines.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{Key, Prefix};

    use super::*;

    #[test]
    fn a_name_that_nobody_uses_leaves_no_line_and_one_name_has_one_line() {
        let lines = Arc::<Lines>::default();
        let keys = Keys::from(Key::new(&Prefix::empty(), "a").unwrap());
        let (one, same) = (lines.of(&keys), lines.of(&keys));
        assert!(Arc::ptr_eq(&one, &same));
        let standing = one.stand();
        assert!(same.is_occupied() && lines.waiting() == 1);
        drop(standing);
        assert!(!same.is_occupied() && lines.waiting() == 0);
        drop((one, same));
        assert!(lines.lines.lock().is_empty());
    }
}
