//! The seam: one atomic decision, and the stores that apply it.

use std::future::Future;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::key::Keys;
use crate::time::Timestamp;

/// What a store keeps under one key for one kind of decision. `Default` is "nothing there".
pub trait State: Default + Clone + Send + 'static {
    /// What it is, for messages about what is none.
    const NOUN: &'static str;

    /// Forgets what has expired by `now`, exactly as a server would.
    fn expire(&mut self, now: Timestamp);

    /// Nothing is there: the store may forget the key.
    fn is_empty(&self) -> bool;
}

/// One atomic operation: a pure function of (state, request, now).
///
/// # Contract
/// *Atomicity*: a store applies the whole of [`decide`](Self::decide) to all keys, or none of it.
/// *Time*: `now` is the store's own clock, read once. *Failure*: when `decide` refuses, it changes no cell.
/// *Repeating*: only where the decision says so ([`REPEATABLE`](Self::REPEATABLE)) may a store send
/// it again after a lost connection; after a definite "too late" it always may.
pub trait Decision: Clone + Send + Sync + 'static {
    /// What is kept per key.
    type State: State;
    /// What the decision answers.
    type Reply: Send + 'static;
    /// The verb that errors, spans and the script file are named by.
    const NAME: &'static str;
    /// Deciding twice is as good as once, so a lost reply may be asked for again. False for whatever consumes.
    const REPEATABLE: bool;

    /// Decides for all keys at once; `cells[i]` belongs to the i-th key, already expired to `now`.
    ///
    /// # Errors
    /// A key holds something that is not ours; no cell was changed.
    fn decide(&self, cells: &mut [Self::State], now: Timestamp) -> Result<Self::Reply, WrongType>;

    /// The moment, by the store's clock, after which nothing may be taken. `None` where nothing is taken.
    ///
    /// A stopped server runs every queued command when it goes on, also those that the client gave up on. So
    /// whatever takes something carries this, and the store stamps it just before sending.
    fn not_after(&self) -> Option<Timestamp> {
        None
    }

    /// Stamps [`not_after`](Self::not_after).
    fn set_not_after(&mut self, _not_after: Timestamp) {}
}

/// The whole of what a store does with a decision; ports are compared with this.
pub fn decide_within<D: Decision>(
    decision: &D,
    cells: &mut [D::State],
    now: Timestamp,
) -> Result<InTime<D::Reply>, WrongType> {
    if decision.not_after().is_some_and(|limit| now > limit) {
        return Ok(Err(TooLate));
    }
    cells.iter_mut().for_each(|cell| cell.expire(now));
    decision.decide(cells, now).map(Ok)
}

/// A reply in time, or "too late".
pub type InTime<R> = Result<R, TooLate>;

/// The decision's "not after" has passed: a definite *not applied*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLate;

/// The key at `index`, or its side key, holds something that is not ours. It was left untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType {
    /// Which of the keys.
    pub index: usize,
    /// It is the side key.
    pub side: bool,
}

/// A reply and the store's time at which it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<R> {
    /// What was decided.
    pub reply: R,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// How many times it was sent. More than once: an earlier copy may have been applied before this one.
    pub sent: u32,
}

impl<R> Answer<R> {
    /// The same answer in other words.
    pub fn map<T>(self, words: impl FnOnce(R) -> T) -> Answer<T> {
        Answer { reply: words(self.reply), at: self.at, sent: self.sent }
    }
}

/// A store that can apply decisions of type `D`.
///
/// # Contract
/// *Time*: the store stamps "not after" = its own time at sending + what is left of `within`. A "too late" answer
/// corrects the known clock offset and is tried once more inside `within`; then it is an error of kind `TooLate`.
/// *Failure*: an error is one of *not applied* or *outcome unknown*, never a guess.
/// *Cancel safety*: dropping the future after it was first polled leaves the outcome unknown; who calls it gives
/// back what may have been taken.
pub trait Apply<D: Decision>: Send + Sync {
    /// Applies `decision` to `at`, answering (or failing) within `within`, waiting for a connection included.
    fn apply(
        &self,
        at: &Keys,
        decision: D,
        within: Duration,
    ) -> impl Future<Output = Result<Answer<D::Reply>, Error>> + Send;
}

impl WrongType {
    /// As an error that names the key.
    pub fn into_error<D: Decision>(self, keys: &Keys) -> Error {
        let what = match self.side {
            true => "its fence key does not hold a fence of ours".to_owned(),
            false => format!("it is not {}", D::State::NOUN),
        };
        Error::new(ErrorKind::WrongType, D::NAME, what).with_key(keys.at(self.index))
    }
}
