//! The end of an attempt: recorded whatever becomes of the caller, of the connection, or of the server for a while.
//!
//! Invariant 8: a completion or an abandonment is said by the call itself. Dropping its future, at any await point or before the
//! first poll, leaves it to the background.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::idempotency::{
    Abandon, AbandonReply, Complete, CompleteReply, HowAbandoned, Stored, Strayed,
};
use lockkeeper_core::{Error, ErrorKind, Uptime};
use lockkeeper_redis::Lane;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::backlog::Kept;
use super::held::HeldAttempt;
use super::outcome::{Completed, Replay};
use crate::background::Busy;
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
pub(super) fn complete(held: Arc<HeldAttempt>, stored: Stored) -> impl Future<Output = Answer> + Send {
    let begun = Unfinished::begin(held, stored);
    async move { begun?.answered().await }
}

/// See [`Attempt::abandon`](super::Attempt::abandon).
pub(super) fn abandon(held: Arc<HeldAttempt>) -> impl Future<Output = Result<(), Error>> + Send {
    let begun = Undone::begin(held);
    async move { begun?.answered().await }
}

/// An abandonment without an answer yet. Dropped while armed, it goes on in the background.
struct Undone {
    held: Arc<HeldAttempt>,
    armed: bool,
    /// Whoever closes the keeper waits for it.
    _busy: Busy,
}

impl Undone {
    fn begin(held: Arc<HeldAttempt>) -> Result<Self, Error> {
        if !held.settle() {
            return Err(held.settled_already(ABANDON));
        }
        let busy = held.inner.background.busy();
        held.end();
        held.class.abandoned(held.of(), HowAbandoned::Undone, held.ran_for());
        Ok(Self { held, armed: true, _busy: busy })
    }

    async fn answered(mut self) -> Result<(), Error> {
        let held = self.held.clone();
        let decision = Abandon { token: held.token.clone(), how: HowAbandoned::Undone };
        let within = held.inner.response_timeout;
        let answer = held.inner.backend.apply(Lane::Command, &held.keys, decision, within).await?;
        self.armed = false;
        held.has_been_ended(HowAbandoned::Undone);
        match answer.reply {
            AbandonReply::Abandoned => Ok(()),
            AbandonReply::Strayed(strayed) => Err(lost(&held, ABANDON, &strayed)),
        }
    }
}

impl Drop for Undone {
    fn drop(&mut self) {
        if self.armed {
            self.held.give_back(HowAbandoned::Undone);
        }
    }
}

/// A completion without an answer yet. Dropped while armed, it goes on in the background.
struct Unfinished {
    held: Arc<HeldAttempt>,
    stored: Stored,
    armed: bool,
    /// Whoever closes the keeper waits for it.
    _busy: Busy,
}

impl Unfinished {
    fn begin(held: Arc<HeldAttempt>, stored: Stored) -> Result<Self, Error> {
        if !held.settle() {
            return Err(held.settled_already(COMPLETE));
        }
        let (busy, stored) = (held.inner.background.busy(), capped(&held, stored));
        Ok(Self { held, stored, armed: true, _busy: busy })
    }

    async fn answered(mut self) -> Answer {
        let (clock, within) = (self.held.inner.clock.clone(), self.held.inner.response_timeout);
        let until = clock.uptime().after(ANSWER_WITHIN);
        let answer = ask(&self.held, &self.stored, Lane::Command, within.min(ANSWER_WITHIN)).await;
        let trouble = match answer {
            Err(error) if may_be_repeated(&error) => error,
            answer => {
                self.armed = false;
                return conclude(&self.held, &self.stored, answer);
            }
        };
        let (answered, last) = self.go_on(trouble);
        tokio::select! {
            biased;
            answer = answered => answer.unwrap_or_else(|_| Err(not_again(NOBODY_LEFT, &last.lock()))),
            () = sleep_until(&*clock, until) => Err(not_yet(&last.lock())),
        }
    }

    /// Leaves it to the background; gives what will be answered, and what was last in the way.
    fn go_on(mut self, trouble: Error) -> (oneshot::Receiver<Answer>, Arc<Mutex<Error>>) {
        self.armed = false;
        let (tell, answered) = oneshot::channel();
        let finish = Finish::new(&self.held, &self.stored, trouble, Some(tell));
        let last = finish.last.clone();
        self.held.inner.finish(finish);
        (answered, last)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.armed {
            let trouble = Error::new(ErrorKind::Unreachable, COMPLETE, "its caller went away");
            self.held.inner.finish(Finish::new(&self.held, &self.stored, trouble, None));
        }
    }
}

pub(super) type Answer = Result<Completed, Error>;

/// A completion that goes on by itself. Dropped without an answer, it is one that was not recorded, and whoever waits is told.
pub(crate) struct Finish {
    held: Arc<HeldAttempt>,
    stored: Stored,
    give_up: Uptime,
    /// Who waits for the answer, if anybody does.
    tell: Option<oneshot::Sender<Answer>>,
    last: Arc<Mutex<Error>>,
    /// Why it ends, should it be dropped; none where it has been answered.
    dropped: Option<&'static str>,
    _kept: Option<Kept>,
}

const NOBODY_LEFT: &str = "the keeper has ended";

impl Finish {
    pub(super) fn new(
        held: &Arc<HeldAttempt>,
        stored: &Stored,
        trouble: Error,
        tell: Option<oneshot::Sender<Answer>>,
    ) -> Self {
        let longest = FINISH_FOR.max(held.terms.lease.as_duration());
        let give_up = held.inner.clock.uptime().after(longest);
        let kept = held.inner.onces.keep(stored.bytes().len());
        let stored = if kept.is_some() { stored.clone() } else { left_out(held, "too many results wait") };
        let last = Arc::new(Mutex::new(trouble));
        Self { held: held.clone(), stored, give_up, tell, last, dropped: Some(NOBODY_LEFT), _kept: kept }
    }

    /// Nobody will work on it.
    pub(crate) fn refused(mut self, why: &'static str) {
        self.dropped = Some(why);
    }

    /// Works until there is an answer, or no hope.
    pub(crate) async fn run(mut self) {
        let answer = self.recorded().await;
        self.dropped = None;
        self.conclude(answer);
    }

    /// First on the connection of commands, where a large result is in no renewal's way; in turns, because that one may
    /// have ended with its runtime.
    async fn recorded(&self) -> Result<CompleteReply, Error> {
        let (inner, mut pause) = (&self.held.inner, FIRST_PAUSE);
        let mut lanes = [Lane::Command, Lane::Renewal].into_iter().cycle();
        loop {
            let place = inner.onces.place_to_finish().await;
            let lane = lanes.next().filter(|_| inner.clock.uptime() < self.give_up);
            let Some(lane) = lane else { return Err(self.last.lock().clone()) };
            let error = match ask(&self.held, &self.stored, lane, inner.response_timeout).await {
                Err(error) if may_be_repeated(&error) => error,
                answer => return answer,
            };
            drop(place);
            tracing::debug!(key = %self.held.keys, %error, "a completion goes on");
            *self.last.lock() = error;
            let jittered = pause.mul_f64(rand::random_range(0.5..1.0));
            sleep_until(&*inner.clock, inner.clock.uptime().after(jittered)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn conclude(&mut self, answer: Result<CompleteReply, Error>) {
        let answer = conclude(&self.held, &self.stored, answer);
        // Who waited may have gone.
        _ = self.tell.take().map(|tell| tell.send(answer));
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        if let Some(why) = self.dropped.take() {
            let error = not_again(why, &self.last.lock());
            self.conclude(Err(error));
        }
    }
}

/// Those who wait for this request in this process need not ask for a result that is large.
async fn ask(
    held: &HeldAttempt,
    stored: &Stored,
    lane: Lane,
    within: Duration,
) -> Result<CompleteReply, Error> {
    let (token, retain) = (held.token.clone(), held.terms.retain);
    let (sent, decision) = (held.inner.clock.uptime(), Complete { token, stored: stored.clone(), retain });
    let reply = held.inner.backend.apply(lane, &held.keys, decision, within).await?.reply;
    // One that was left out may have been recorded as a whole by an earlier try.
    if let CompleteReply::Completed { remaining } = reply
        && stored.is_whole()
    {
        let replay = Replay { stored: stored.clone(), fence: held.fence, remaining };
        held.line.answered(held.fingerprint, &replay, sent);
    }
    Ok(reply)
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
fn capped(held: &HeldAttempt, stored: Stored) -> Stored {
    let (length, most) = (stored.bytes().len(), held.terms.max_result);
    if length <= most { stored } else { left_out(held, &format!("{length} bytes; at most {most}")) }
}

/// It has run all the same.
fn left_out(held: &HeldAttempt, why: &str) -> Stored {
    super::run::warn_not_kept(&held.keys, why);
    Stored::nothing()
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
    unknown(format!("no answer yet, and it goes on in the background: {last}"), last)
}

/// It may have been recorded.
fn not_again(why: &str, last: &Error) -> Error {
    unknown(format!("no answer, and it is not tried again ({why}): {last}"), last)
}

fn unknown(detail: String, last: &Error) -> Error {
    let error = Error::new(ErrorKind::OutcomeUnknown { not_after: None }, COMPLETE, detail);
    match last.key() {
        Some(key) => error.with_key(key),
        None => error,
    }
    .with_source(last.clone())
}
