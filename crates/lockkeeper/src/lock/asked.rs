//! An acquisition as telemetry sees it: asked for once, answered once, however many tries it took.

use lockkeeper_core::{Error, Uptime};

use super::builder::Lock;
use super::outcome::Acquired;
use crate::telemetry::{Reason, events};

/// Not answered yet. Dropped like this, the caller went away.
pub(super) struct Asked<'a> {
    lock: &'a Lock,
    since: Uptime,
    is_answered: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn new(lock: &'a Lock) -> Self {
        events::acquire_start(&lock.keys, &lock.inner.name);
        Self { lock, since: lock.inner.clock.uptime(), is_answered: false }
    }

    /// When it was asked for.
    pub(super) fn since(&self) -> Uptime {
        self.since
    }

    /// Tells what came of it, and hands it through.
    pub(super) fn answer(mut self, result: Result<Acquired, Error>) -> Result<Acquired, Error> {
        self.is_answered = true;
        let (lock, took) = (self.lock, self.lock.inner.clock.uptime().since(self.since));
        match &result {
            Ok(Acquired::Held(guard)) => {
                lock.class.acquired(took);
                events::acquire_success(guard.of(), took, guard.lease());
            }
            Ok(Acquired::Busy(busy)) => {
                lock.class.refused(Reason::Busy, took);
                events::acquire_refused(&lock.keys, lock.token.as_ref(), busy, took);
            }
            Err(error) => {
                lock.class.refused(Reason::from(error), took);
                events::acquire_failed(&lock.keys, error, took);
            }
        }
        result
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.lock.class.refused(Reason::Cancelled, self.lock.inner.clock.uptime().since(self.since));
        }
    }
}
