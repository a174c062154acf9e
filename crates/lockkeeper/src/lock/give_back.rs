//! Giving back in the background: releases that nobody waits for, and compensation of what may have been taken.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::idempotency::{Abandon, AbandonReply, HowAbandoned};
use lockkeeper_core::lock::permit::{ReleasePermit, ReleasePermitReply};
use lockkeeper_core::lock::{OwnerToken, Release};
use lockkeeper_core::{Clock, Error, Keys, Timestamp, Uptime};
use lockkeeper_redis::Lane;

use super::outcome::Released;
use super::permits::Line;
use crate::backend::Backend;
use crate::clock::sleep_until;
use crate::once;
use crate::telemetry::{Class, Reason};

/// The first pause between tries; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A token to be removed from its keys.
///
/// Invariant 5: a removal on one connection can overtake an acquire that sits in another one. So it is repeated until
/// one answer came after the acquire's "not after" had passed on that server; bounded by `give_up`, when the lease
/// has ended by itself.
#[derive(Debug)]
pub(crate) struct GiveBack {
    keys: Keys,
    token: OwnerToken,
    kind: Kind,
    doubt: Doubt,
    give_up: Uptime,
    /// Who had it and dropped it unreleased: its release has not been counted.
    dropped: Option<Dropped>,
}

/// What a token stands for.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Lock,
    /// One of so many; who waits for one is told.
    Permit(Arc<Line>),
    /// The right to run once, and what its end leaves behind; who waits for that is told.
    Once(Arc<once::Line>, HowAbandoned),
}

impl Kind {
    /// For how long giving back is tried at least, also beyond the lease. Where nothing was done, a lease that ended by
    /// itself may say that nobody knows.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            Self::Once(_, HowAbandoned::Undone) => once::FINISH_FOR,
            Self::Once(_, HowAbandoned::Crashed) | Self::Lock | Self::Permit(_) => Duration::ZERO,
        }
    }
}

/// A holder that went away without a release.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    pub(super) class: Class,
    pub(super) held_for: Duration,
}

/// Until when a request of the abandoned acquisition may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// None is under way.
    None,
    /// Until then, by the server's clock: its "not after".
    Until(Timestamp),
    /// For so long after the first answer: the server's clock was not known.
    For(Duration),
}

impl Doubt {
    /// How much is left when an answer came at `at`; `None` when nothing can come any more.
    fn left(&mut self, at: Timestamp) -> Option<Duration> {
        if let Self::For(length) = *self {
            *self = Self::Until(at.after(length));
        }
        match *self {
            Self::Until(limit) if at <= limit => Some(limit.since(at)),
            _ => None,
        }
    }
}

impl GiveBack {
    pub(crate) fn new(keys: Keys, token: OwnerToken, doubt: Doubt, give_up: Uptime) -> Self {
        Self { keys, token, kind: Kind::Lock, doubt, give_up, dropped: None }
    }

    /// The same for a token of another kind.
    pub(crate) fn of(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Counts the release when it is answered.
    pub(super) fn counted_for(mut self, dropped: Option<Dropped>) -> Self {
        self.dropped = dropped;
        self
    }

    /// Works until it is done or given up.
    pub(crate) async fn run(mut self, backend: Backend, clock: Arc<dyn Clock>, response_timeout: Duration) {
        let mut pause = FIRST_PAUSE;
        loop {
            let now = clock.uptime();
            let next = match self.release_once(&backend, response_timeout).await {
                Ok(at) => match self.doubt.left(at) {
                    None => return,
                    // Until the server's clock has passed "not after", and a little more.
                    Some(left) => left + Duration::from_millis(1),
                },
                Err(error) => {
                    tracing::debug!(key = %self.keys, %error, "giving back goes on");
                    let jittered = pause.mul_f64(rand::random_range(0.5..1.0));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    jittered
                }
            };
            if now.after(next) > self.give_up {
                tracing::warn!(key = %self.keys, "it was left to its lease: it could not be given back");
                self.count(Reason::OutcomeUnknown);
                return;
            }
            sleep_until(&*clock, clock.uptime().after(next)).await;
        }
    }

    async fn release_once(&mut self, backend: &Backend, within: Duration) -> Result<Timestamp, Error> {
        let (keys, token) = (&self.keys, self.token.clone());
        let (at, released) = match &self.kind {
            Kind::Lock => {
                let answer = backend.apply(Lane::Renewal, keys, Release { token }, within).await?;
                (answer.at, answer.reply.into())
            }
            Kind::Permit(line) => {
                let answer = backend.apply(Lane::Renewal, keys, ReleasePermit { token }, within).await?;
                if answer.reply == ReleasePermitReply::Released {
                    line.freed();
                }
                (answer.at, answer.reply.into())
            }
            Kind::Once(line, how) => {
                let answer = backend.apply(Lane::Renewal, keys, Abandon { token, how: *how }, within).await?;
                if answer.reply == AbandonReply::Abandoned {
                    line.ended();
                }
                return Ok(answer.at);
            }
        };
        if let Released::HeldByAnother(holder) = &released {
            tracing::debug!(key = %self.keys, %holder, "given back: held by another");
        }
        self.count(Reason::from(&released));
        Ok(at)
    }

    fn count(&mut self, outcome: Reason) {
        if let Some(Dropped { class, held_for }) = self.dropped.take() {
            class.released(outcome, held_for);
        }
    }
}
