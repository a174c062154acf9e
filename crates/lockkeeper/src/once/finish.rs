//! The end of an attempt: recorded whatever becomes of the caller, of the connection, or of the server for a while.
//!
//! Invariant 8: dropping a completion or an abandonment at any await point leaves it to the background.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::idempotency::{
    Abandon, AbandonReply, Complete, CompleteReply, HowAbandoned, Stored, Strayed,
};
use lockkeeper_core::{Error, ErrorKind, Uptime};
use lockkeeper_redis::Lane;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::held::HeldAttempt;
use super::outcome::Completed;
use crate::clock::sleep_until;
use crate::lock::LossReason;

/// For so long an end without an answer is tried again, and at least for the lease.
pub(crate) const FINISH_FOR: Duration = Duration::from_secs(60);
/// For so long a caller waits for it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The first pause between tries; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

const COMPLETE: &str = "complete";
const ABANDON: &str = "abandon";

/// See [`Attempt::complete`](super::Attempt::complete).
pub(super) async fn complete(held: Arc<HeldAttempt>, stored: Stored) -> Result<Completed, Error> {
    if !held.settle() {
        return Err(held.settled_already(COMPLETE));
    }
    // Whoever closes the keeper waits for it from now on.
    let busy = held.inner.background.busy();
    let clock = held.inner.clock.clone();
    let until = clock.uptime().after(ANSWER_WITHIN);
    let mut unfinished = Unfinished { stored: capped(stored, held.terms.max_result), held, armed: true };
    let trouble = match ask(&unfinished.held, &unfinished.stored, Lane::Command).await {
        Err(error) if may_be_repeated(&error) => error,
        answer => {
            unfinished.armed = false;
            return conclude(&unfinished.held, &unfinished.stored, answer);
        }
    };
    let (answered, last) = unfinished.go_on(trouble);
    drop(busy);
    tokio::select! {
        biased;
        answer = answered => answer.unwrap_or_else(|_| Err(not_yet(&last.lock()))),
        () = sleep_until(&*clock, until) => Err(not_yet(&last.lock())),
    }
}

/// See [`Attempt::abandon`](super::Attempt::abandon).
pub(super) async fn abandon(held: Arc<HeldAttempt>) -> Result<(), Error> {
    if !held.settle() {
        return Err(held.settled_already(ABANDON));
    }
    held.end();
    held.class.abandoned(held.of(), HowAbandoned::Undone, held.ran_for());
    let mut undone = Undone(Some(held.clone()));
    let decision = Abandon { token: held.token.clone(), how: HowAbandoned::Undone };
    let within = held.inner.response_timeout;
    let answer = held.inner.backend.apply(Lane::Command, &held.keys, decision, within).await?;
    undone.0 = None;
    held.has_been_ended(HowAbandoned::Undone);
    match answer.reply {
        AbandonReply::Abandoned => Ok(()),
        AbandonReply::Strayed(strayed) => Err(lost(&held, ABANDON, &strayed)),
    }
}

/// An abandonment without an answer yet. Dropped, it goes on in the background.
struct Undone(Option<Arc<HeldAttempt>>);

impl Drop for Undone {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.give_back(HowAbandoned::Undone);
        }
    }
}

/// A completion without an answer yet. Dropped while armed, it goes on in the background.
struct Unfinished {
    held: Arc<HeldAttempt>,
    stored: Stored,
    armed: bool,
}

impl Unfinished {
    /// Leaves it to the background; gives what will be answered, and what was last in the way.
    fn go_on(mut self, trouble: Error) -> (oneshot::Receiver<Answer>, Arc<Mutex<Error>>) {
        self.armed = false;
        let (tell, answered) = oneshot::channel();
        let last = Arc::new(Mutex::new(trouble));
        self.held.inner.give_back(Finish { last: last.clone(), tell: Some(tell), ..self.rest() });
        (answered, last)
    }

    fn rest(&self) -> Finish {
        let longest = FINISH_FOR.max(self.held.terms.lease.as_duration());
        let give_up = self.held.inner.clock.uptime().after(longest);
        let last = Arc::new(Mutex::new(Error::new(ErrorKind::Unreachable, COMPLETE, "its caller went away")));
        Finish { held: self.held.clone(), stored: self.stored.clone(), give_up, tell: None, last }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.armed {
            self.held.inner.give_back(self.rest());
        }
    }
}

type Answer = Result<Completed, Error>;

/// A completion that goes on by itself.
pub(crate) struct Finish {
    held: Arc<HeldAttempt>,
    stored: Stored,
    give_up: Uptime,
    /// Who waits for the answer, if anybody does.
    tell: Option<oneshot::Sender<Answer>>,
    last: Arc<Mutex<Error>>,
}

impl Finish {
    /// Works until there is an answer, or no hope.
    pub(crate) async fn run(self) {
        let Self { held, stored, give_up, tell, last } = self;
        let (clock, mut pause) = (held.inner.clock.clone(), FIRST_PAUSE);
        let answer = loop {
            let error = match ask(&held, &stored, Lane::Renewal).await {
                Err(error) if may_be_repeated(&error) && clock.uptime() < give_up => error,
                answer => break answer,
            };
            tracing::debug!(key = %held.keys, %error, "a completion goes on");
            *last.lock() = error;
            sleep_until(&*clock, clock.uptime().after(pause.mul_f64(rand::random_range(0.5..1.0)))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        let answer = conclude(&held, &stored, answer);
        // Who waited may have gone.
        _ = tell.map(|tell| tell.send(answer));
    }
}

async fn ask(held: &HeldAttempt, stored: &Stored, lane: Lane) -> Result<CompleteReply, Error> {
    let (token, retain) = (held.token.clone(), held.terms.retain);
    let decision = Complete { token, stored: stored.clone(), retain };
    let within = held.inner.response_timeout;
    Ok(held.inner.backend.apply(lane, &held.keys, decision, within).await?.reply)
}

fn conclude(held: &HeldAttempt, stored: &Stored, answer: Result<CompleteReply, Error>) -> Answer {
    held.class.completed(held.of(), stored, &answer, held.ran_for());
    match answer {
        Ok(CompleteReply::Completed { remaining }) => {
            held.end();
            held.has_been_ended(HowAbandoned::Crashed);
            Ok(Completed { remaining })
        }
        Ok(CompleteReply::Strayed(strayed)) => {
            let error = lost(held, COMPLETE, &strayed);
            held.has_been_ended(HowAbandoned::Crashed);
            Err(error)
        }
        // It has run, and that is not recorded: the claim is left to its lease.
        Err(error) => {
            held.lose(LossReason::NotRenewed(error.to_string()));
            Err(error)
        }
    }
}

impl std::fmt::Debug for Finish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Finish({}, {:?})", self.held.keys, self.stored)
    }
}

/// What is not kept, because it is too large, is nothing at all: a part of a result is none.
fn capped(stored: Stored, most: usize) -> Stored {
    if stored.bytes().len() <= most { stored } else { Stored::nothing() }
}

fn lost(held: &HeldAttempt, operation: &'static str, strayed: &Strayed) -> Error {
    held.stray(strayed);
    let detail = match strayed {
        Strayed::TakenOver(holder) => format!("taken over by {holder}; nothing was changed"),
        Strayed::Gone => "its record is gone; nothing was changed".to_owned(),
        Strayed::Lapsed => "its lease has ended; nothing was changed".to_owned(),
        Strayed::Settled => "it has ended already; nothing was changed".to_owned(),
    };
    Error::new(ErrorKind::Lost, operation, detail).with_key(&held.keys)
}

/// Repeating is harmless; it helps where the cause may pass.
fn may_be_repeated(error: &Error) -> bool {
    error.is_transient() || error.may_have_been_applied()
}

/// Whatever was in the way last: it may be recorded yet.
fn not_yet(last: &Error) -> Error {
    let detail = format!("no answer yet, and it goes on in the background: {last}");
    let error = Error::new(ErrorKind::OutcomeUnknown { not_after: None }, COMPLETE, detail);
    match last.key() {
        Some(key) => error.with_key(key),
        None => error,
    }
    .with_source(last.clone())
}
