//! One caller's place in a line.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lockkeeper_core::lock::Lease;
use lockkeeper_core::{Error, ErrorKind, Uptime};
use parking_lot::Mutex;

use super::Queue;
use crate::lock::builder::Lock;
use crate::lock::held::Held;
use crate::lock::outcome::Busy;
use crate::lock::tenure::Tenure;
use crate::telemetry::Way;

/// Who waits, for what, and until when.
pub(super) struct Place {
    pub(super) lock: Lock,
    pub(super) lease: Lease,
    /// The end of the caller's patience. `None`: there is none.
    pub(super) until: Option<Uptime>,
    state: Mutex<State>,
}

enum State {
    Waiting(Option<Waker>),
    Ready(Outcome),
    /// The caller has what came of it, or went away.
    Gone,
}

/// How waiting ended.
pub(in crate::lock) enum Outcome {
    /// The lock is the caller's.
    Held(Arc<Held>),
    /// This keeper's tenure is the caller's to be swapped for one of their own.
    Baton(Baton),
    /// The time is up, and somebody is still in the way.
    Busy(Busy),
    Failed(Error),
}

/// A tenure on its way to a caller who needs another token or lease. Dropped, it goes to the next or is released.
pub(in crate::lock) struct Baton(Option<Arc<Tenure>>);

impl Baton {
    pub(in crate::lock) fn tenure(&self) -> Option<&Arc<Tenure>> {
        self.0.as_ref()
    }

    /// What becomes of the tenure is the caller's concern from now on.
    pub(in crate::lock) fn disarm(&mut self) -> Option<Arc<Tenure>> {
        self.0.take()
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        if let Some(tenure) = self.0.take().filter(|tenure| !tenure.pass_on()) {
            tenure.give_back();
        }
    }
}

impl Place {
    pub(super) fn new(lock: Lock, lease: Lease, until: Option<Uptime>) -> Self {
        Self { lock, lease, until, state: Mutex::new(State::Waiting(None)) }
    }

    /// Hands a running tenure over: as it is where that is as good, else to be swapped.
    pub(super) fn hand_over(&self, tenure: &Arc<Tenure>, now: Uptime) {
        let outcome = match tenure.seat_next(&self.lock, self.lease, now) {
            Some(held) => {
                self.lock.class.handed_over(Way::Local);
                Outcome::Held(held)
            }
            None => Outcome::Baton(Baton(Some(tenure.clone()))),
        };
        self.deliver(outcome);
    }

    /// Tells the caller. Where they went away meanwhile, the outcome is dropped, which passes a lock on.
    pub(super) fn deliver(&self, outcome: Outcome) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Waiting(_)) {
            drop(state);
            drop(outcome);
            return;
        }
        let before = std::mem::replace(&mut *state, State::Ready(outcome));
        drop(state);
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }

    /// The keeper was closed.
    pub(super) fn close(&self) {
        self.deliver(Outcome::Failed(Error::new(ErrorKind::Closed, "acquire", "").with_key(&self.lock.keys)));
    }
}

/// The future of a place. Dropping it leaves the line.
pub(in crate::lock) struct Waiting {
    queue: Arc<Queue>,
    place: Arc<Place>,
}

impl Waiting {
    pub(super) fn new(queue: Arc<Queue>, place: Arc<Place>) -> Self {
        place.lock.class.waiting(1);
        Self { queue, place }
    }
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = self.place.state.lock();
        match &mut *state {
            State::Waiting(waker) => {
                match waker {
                    Some(known) => known.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            State::Ready(_) | State::Gone => match std::mem::replace(&mut *state, State::Gone) {
                State::Ready(outcome) => Poll::Ready(outcome),
                _ => Poll::Pending,
            },
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.place.lock.class.waiting(-1);
        let before = std::mem::replace(&mut *self.place.state.lock(), State::Gone);
        if let State::Waiting(_) = before {
            self.queue.leave(&self.place);
        }
        // What was ready and never seen is dropped here, outside of all locks: a lock is passed on.
    }
}
