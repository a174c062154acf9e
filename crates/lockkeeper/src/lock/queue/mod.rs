//! Waiting: the callers of one keeper who wait for the same keys stand in one line, first come, first served, and
//! share one place in the race for the server's lock.
//!
//! A [`racer`] on the keeper's thread runs for each line: it tries, is told of changes, and keeps the time of everybody
//! in the line. A holder of this process passes the lock on to the front of the line by itself.

mod line;
mod place;
mod racer;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use lockkeeper_core::lock::{KeeperName, Lease};
use lockkeeper_core::{Keys, Uptime};
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::line::{Line, Next};
pub(super) use self::place::{Baton, Outcome};
use self::place::{Place, Waiting};
pub(super) use self::racer::may_be_repeated;
pub(crate) use self::racer::{RaceContext, race};
use super::builder::Lock;
use super::outcome::Busy;
use super::tenure::Tenure;
use crate::telemetry::Way;

/// Whether a line took a tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassedOn {
    /// The front of the line has it.
    To,
    /// Nobody is there, or it is another keeper's turn.
    Nobody,
    /// The line was taken away: nobody will ever stand there again.
    Retired,
}

/// All lines of one keeper.
#[derive(Default)]
pub(crate) struct Queues {
    queues: Mutex<HashMap<Keys, Arc<Queue>>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
    /// That waiting polls only has been counted.
    has_fallen_back: AtomicBool,
    is_closed: AtomicBool,
    /// How many lines there have been.
    made: AtomicU64,
}

/// One line.
pub(crate) struct Queue {
    pub(super) keys: Keys,
    /// What others see of it: the keeper, and which of its lines. Two lines that share a key are others to each other.
    name: KeeperName,
    line: Mutex<Line>,
    /// Something happened that the racer does not know of.
    stirred: Notify,
}

impl Queues {
    /// Nobody waits for anything. Costs no lock.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    pub(super) fn find(&self, keys: &Keys) -> Option<Arc<Queue>> {
        self.queues.lock().get(keys).cloned()
    }

    /// Who comes now had better stand in line at once: others do, or this keeper has the lock, or just gave it away.
    pub(super) fn has_line(&self, lock: &Lock) -> bool {
        let now = || lock.inner.clock.uptime();
        !self.is_empty() && self.find(&lock.keys).is_some_and(|queue| queue.line.lock().is_occupied(now))
    }

    /// Stands in line; `at_front` for who was about to hold it already. `seen` is who was in the way.
    pub(super) fn join(
        &self,
        lock: &Lock,
        lease: Lease,
        until: Option<Uptime>,
        seen: Option<Busy>,
        at_front: bool,
    ) -> Waiting {
        let place = Arc::new(Place::new(lock.clone(), lease, until));
        let mut queues = self.queues.lock();
        let queue = queues.entry(lock.keys.clone()).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::AcqRel);
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            Arc::new(Queue::new(lock.keys.clone(), lock.inner.name.line(number)))
        });
        let (queue, joined) = (queue.clone(), queue.line.lock().join(place.clone(), seen, at_front));
        drop(queues);
        if self.is_closed.load(Ordering::Acquire) {
            queue.abandon(false);
        }
        if joined.starts_race {
            if !lock.inner.background.race(queue.clone()) {
                self.dissolve(&queue);
            }
        } else if joined.stirs {
            queue.stirred.notify_one();
        }
        Waiting::new(queue, place)
    }

    /// Takes an empty line away. False: somebody has come.
    fn retire(&self, queue: &Queue) -> bool {
        let mut queues = self.queues.lock();
        let is_empty = queue.line.lock().retire();
        if is_empty {
            self.remove(&mut queues, queue);
        }
        is_empty
    }

    /// Takes a line away for which nobody races, and tells those who stand there.
    pub(crate) fn dissolve(&self, queue: &Queue) {
        self.remove(&mut self.queues.lock(), queue);
        queue.abandon(true);
    }

    fn remove(&self, queues: &mut HashMap<Keys, Arc<Queue>>, queue: &Queue) {
        if queues.get(&queue.keys).is_some_and(|known| std::ptr::eq(&**known, queue)) {
            queues.remove(&queue.keys);
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Nobody waits any more: the keeper is closed.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let all: Vec<_> = self.queues.lock().values().cloned().collect();
        all.iter().for_each(|queue| queue.abandon(false));
    }

    /// How many wait for these keys.
    pub(super) fn waiting_for(&self, keys: &Keys) -> usize {
        self.find(keys).map_or(0, |queue| queue.line.lock().len())
    }

    /// How many wait, over all lines.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.lock().values().map(|queue| queue.line.lock().len()).sum()
    }
}

impl Queue {
    fn new(keys: Keys, name: KeeperName) -> Self {
        Self { keys, name, line: Mutex::default(), stirred: Notify::new() }
    }

    /// Gives `tenure` to the front of the line, unless it is another keeper's turn.
    pub(super) fn pass_on(self: &Arc<Self>, tenure: &Arc<Tenure>, now: Uptime) -> PassedOn {
        if !tenure.can_be_passed(now) {
            return PassedOn::Nobody;
        }
        let next = self.line.lock().next_for(tenure, now);
        match next {
            Next::Retired => PassedOn::Retired,
            Next::Nobody => PassedOn::Nobody,
            Next::Place { place, wakes_racer } => {
                if wakes_racer {
                    self.stirred.notify_one();
                }
                tenure.belongs_to(self);
                place.hand_over(tenure, now);
                PassedOn::To
            }
        }
    }

    /// Starts a turn of this keeper with what the racer won, for the front of the line. Where nobody is there
    /// any more, it is given back with its last handle.
    fn won(self: &Arc<Self>, tenure: &Arc<Tenure>, others_wait: bool, asked_for: &Arc<Place>) {
        let now = tenure.inner.clock.uptime();
        let before = self.line.lock().start_turn(tenure, others_wait, now);
        if let Some(before) = before.filter(|before| !before.is_over()) {
            // The server gave the lock again, so what this keeper thought to have was gone.
            before.lose_as_absent();
        }
        let Some(place) = self.line.lock().take_front(now) else { return };
        tenure.belongs_to(self);
        let is_theirs = Arc::ptr_eq(&place, asked_for) && place.lock.token.is_none();
        match is_theirs.then(|| tenure.first_holder(&place.lock)).flatten() {
            Some(held) => {
                place.lock.class.handed_over(Way::Server);
                place.deliver(Outcome::Held(held));
            }
            None => place.hand_over(tenure, now),
        }
    }

    /// The turn goes on under another tenure.
    pub(super) fn swapped(self: &Arc<Self>, tenure: &Arc<Tenure>) {
        self.line.lock().swapped(tenure);
        tenure.belongs_to(self);
    }

    /// Back to the race, unless this keeper has another one by now.
    pub(super) fn tenure_ended(&self, tenure: &Tenure) {
        self.line.lock().tenure_ended(tenure, tenure.inner.clock.uptime());
        self.stirred.notify_one();
    }

    /// Nobody waits here any more: the keeper is closed, or `for_good`: the racer is gone.
    fn abandon(&self, for_good: bool) {
        let left = self.line.lock().abandon(for_good);
        left.into_iter().for_each(|place| place.close());
        self.stirred.notify_one();
    }

    /// A caller waits no more.
    fn leave(&self, place: &Arc<Place>) {
        self.line.lock().leave(place);
    }
}
