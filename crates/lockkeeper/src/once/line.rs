//! The callers of one keeper who wait for the end of the same attempt, and those who run it: an end is told inside the
//! process without the server, and one of those who wait asks it for all of them.
//!
//! Invariant 8: a place is a future of a fair semaphore, so dropping it leaves the line.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use lockkeeper_core::Keys;
use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// All lines of one keeper.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<Keys, Weak<Line>>>,
    waiting: AtomicUsize,
    running: AtomicUsize,
}

/// One line. It lives as long as anybody begins, runs or waits for its key.
#[derive(Debug)]
pub(crate) struct Line {
    keys: Keys,
    lines: Weak<Lines>,
    /// One permit: to be the one who asks often.
    turns: Semaphore,
    /// The attempt has, or may have, ended.
    changed: Notify,
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
            changed: Notify::new(),
        });
        lines.insert(keys.clone(), Arc::downgrade(&line));
        line
    }

    /// How many wait, over all lines.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many attempts run.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    pub(super) fn began(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// The keeper is closed: whoever waits looks whether it is.
    pub(crate) fn close(&self) {
        let all: Vec<_> = self.lines.lock().values().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|line| line.ended());
    }
}

impl Line {
    /// Counts the caller as waiting until it is dropped.
    pub(super) fn stand(&self) -> Standing<'_> {
        if let Some(lines) = self.lines.upgrade() {
            lines.waiting.fetch_add(1, Ordering::Relaxed);
        }
        Standing { line: self }
    }

    /// The turn to ask often, if nobody has it.
    pub(super) fn turn_at_once(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.try_acquire().ok()
    }

    /// The turn, after all who came before.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// The attempt has, or may have, ended: everybody asks.
    pub(crate) fn ended(&self) {
        self.changed.notify_waiters();
    }

    /// Is ready when [`ended`](Self::ended) was said since this was made.
    pub(super) fn told(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Some(lines) = self.lines.upgrade() else { return };
        let mut lines = lines.lines.lock();
        // Another one may stand for the same key by now.
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
        if let Some(lines) = self.line.lines.upgrade() {
            lines.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::{Key, Prefix};
    use tokio::time::timeout;

    use super::*;

    fn keys() -> Keys {
        Key::new(&Prefix::empty(), "a").unwrap().into()
    }

    #[test]
    fn a_key_that_nobody_uses_leaves_no_line_and_one_key_has_one_line() {
        let lines = Arc::<Lines>::default();
        let (one, same) = (lines.of(&keys()), lines.of(&keys()));
        assert!(Arc::ptr_eq(&one, &same));
        let standing = one.stand();
        assert_eq!(lines.waiting(), 1);
        drop(standing);
        assert_eq!(lines.waiting(), 0);
        drop((one, same));
        assert!(lines.lines.lock().is_empty());
    }

    #[tokio::test]
    async fn an_end_is_told_to_everybody_who_looked_before_it() {
        let lines = Arc::<Lines>::default();
        let line = lines.of(&keys());
        let (one, other) = (line.told(), line.told());
        line.ended();
        let late = line.told();
        assert!(timeout(Duration::ZERO, one).await.is_ok() && timeout(Duration::ZERO, other).await.is_ok());
        assert!(timeout(Duration::ZERO, late).await.is_err());
    }
}
