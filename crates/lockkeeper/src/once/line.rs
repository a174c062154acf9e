//! The callers of one keeper who wait for the end of the same attempt, and those who run it: an end is told inside the
//! process without the server, and one of those who wait asks it for all of them. A result that it is answered, or that is
//! recorded in this process, is handed to all who wait with the same request: it comes from the server once, not once for each.
//!
//! Invariant 8: a turn is a permit of a semaphore, so dropping who has it, or waits for it, lets the next one ask. There is no
//! order among them: whoever is woken asks for a turn anew.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use lockkeeper_core::idempotency::Fingerprint;
use lockkeeper_core::{Keys, Uptime};
use lockkeeper_redis::Lane;
use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::backlog::{Backlog, Kept};
use super::outcome::Replay;
use crate::backend::Backend;
use crate::telemetry::events;

/// So many wait for one key; who comes beyond that is told at once that it runs.
const MAX_IN_LINE: usize = 10_000;

/// All lines of one keeper.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<Keys, Weak<Line>>>,
    waiting: AtomicUsize,
    running: AtomicUsize,
    backlog: Backlog,
    /// Somebody was told that the server may evict records, or that it does not.
    eviction_is_known: AtomicBool,
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
    waiting: AtomicUsize,
    /// The last result that was answered while anybody waited.
    known: Mutex<Option<Known>>,
}

/// A result that was answered to a question sent `at`.
#[derive(Debug)]
struct Known {
    fingerprint: Fingerprint,
    replay: Replay,
    at: Uptime,
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
            waiting: AtomicUsize::new(0),
            known: Mutex::default(),
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

    /// Room for the result of an end that goes on by itself, if there is any.
    pub(super) fn keep(&self, bytes: usize) -> Option<Kept> {
        self.backlog.keep(bytes)
    }

    /// The right to send the end of an attempt that goes on by itself.
    pub(super) async fn place_to_finish(&self) -> Option<SemaphorePermit<'_>> {
        self.backlog.place().await
    }

    /// Says, once, that the server may evict records: as soon as there is a connection to know it from.
    pub(super) fn look_for_eviction(&self, backend: &Backend) {
        let Backend::Redis(lanes) = backend else { return };
        let store = lanes.on(Lane::Command);
        if self.eviction_is_known.load(Ordering::Relaxed) || !store.is_connected() {
            return;
        }
        if !self.eviction_is_known.swap(true, Ordering::Relaxed)
            && let Some(policy) = store.evicts()
        {
            events::once_may_be_evicted(&policy);
        }
    }

    /// The keeper is closed: whoever waits looks whether it is.
    pub(crate) fn close(&self) {
        let all: Vec<_> = self.lines.lock().values().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|line| line.ended());
    }
}

impl Line {
    /// Counts the caller as waiting until it is dropped; `None` where too many wait.
    pub(super) fn stand(&self) -> Option<Standing<'_>> {
        let more = |waiting: usize| (waiting < MAX_IN_LINE).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        if let Some(lines) = self.lines.upgrade() {
            lines.waiting.fetch_add(1, Ordering::Relaxed);
        }
        Some(Standing { line: self })
    }

    /// This is the result, as was answered to a question that was sent `at`. Kept as long as anybody waits.
    pub(super) fn answered(&self, fingerprint: Fingerprint, replay: &Replay, at: Uptime) {
        let mut known = self.known.lock();
        if self.waiting.load(Ordering::Acquire) > 0 {
            *known = Some(Known { fingerprint, replay: replay.clone(), at });
        }
    }

    /// The result for the same request, as it was answered to a question that was sent after `since`, and is kept still.
    pub(super) fn known(&self, fingerprint: Fingerprint, since: Uptime, now: Uptime) -> Option<Replay> {
        let known = self.known.lock();
        let known = known.as_ref().filter(|known| known.fingerprint == fingerprint && known.at >= since)?;
        let remaining = known.replay.remaining.saturating_sub(now.since(known.at));
        (!remaining.is_zero()).then(|| Replay { remaining, ..known.replay.clone() })
    }

    /// The turn to ask often, if nobody has it.
    pub(super) fn turn_at_once(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.try_acquire().ok()
    }

    /// The turn, as soon as it is free.
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
        if self.line.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut known = self.line.known.lock();
            if self.line.waiting.load(Ordering::Acquire) == 0 {
                *known = None;
            }
        }
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
        let standing = one.stand().unwrap();
        assert_eq!(lines.waiting(), 1);
        drop(standing);
        assert_eq!(lines.waiting(), 0);
        drop((one, same));
        assert!(lines.lines.lock().is_empty());
    }

    #[test]
    fn a_line_is_bounded() {
        let lines = Arc::<Lines>::default();
        let line = lines.of(&keys());
        let mut standing: Vec<_> = (0..MAX_IN_LINE).map(|_| line.stand().unwrap()).collect();
        assert!(line.stand().is_none() && lines.waiting() == MAX_IN_LINE);
        standing.pop();
        assert!(line.stand().is_some());
    }

    #[test]
    fn a_result_is_known_to_the_same_request_while_anybody_waits() {
        let lines = Arc::<Lines>::default();
        let (line, at, tick) = (lines.of(&keys()), Uptime::from_micros(5), Duration::from_micros(1));
        let (print, other) = (Fingerprint::new([1; 32]), Fingerprint::new([2; 32]));
        let stored = lockkeeper_core::idempotency::Stored::nothing();
        let fence = lockkeeper_core::lock::Fence::new(1);
        let replay = Replay { stored, fence, remaining: tick * 2 };
        line.answered(print, &replay, at);
        assert!(line.known(print, at, at).is_none(), "nobody waited");
        let standing = line.stand().unwrap();
        line.answered(print, &replay, at);
        let later = line.known(print, at, at.after(tick)).unwrap();
        assert_eq!(later, Replay { remaining: tick, ..replay });
        assert!(line.known(other, at, at).is_none(), "another request");
        assert!(
            line.known(print, at.after(tick), at.after(tick)).is_none(),
            "asked before it was waited for"
        );
        assert!(line.known(print, at, at.after(tick * 2)).is_none(), "no longer kept");
        drop(standing);
        assert!(line.known.lock().is_none(), "nobody waits");
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
