//! Kinds of operations that run once, by name, and what is counted for them.
//!
//! A label is the name, never a key. The names are bounded, and apart from those of locks and limiters.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lockkeeper_core::idempotency::{CompleteReply, HowAbandoned, Stored, Strayed};
use lockkeeper_core::{Error, Keys};
use metrics::Key;
use parking_lot::Mutex;

use super::emit::{check_name, count, key, observe, shift, show_counter, show_gauge};
use super::events::{self, OfAttempt};
use super::reason::Reason;
use super::table::{self, Metric};
use crate::lock::LossReason;
use crate::once::Begun;

/// The most names of operations that run once in one process: each adds its own time series.
pub const MAX_ONCES: usize = 256;

static ONCES: Mutex<Onces> = Mutex::new(Onces::new());

/// What the label `result` says of a begin that was answered, in the order of their numbers.
const ANSWERS: [&str; 5] = ["claimed", "replayed", "running", "different_request", "unknown"];
/// In the order of [`how_number`].
const HOWS: [&str; 2] = ["undone", "crashed"];

/// A name as a label.
#[derive(Clone, Copy)]
pub(crate) struct OnceClass(&'static Prepared);

/// Every key of a name, with its labels. Some 10 KB.
struct Prepared {
    name: &'static str,
    answers: [Key; ANSWERS.len()],
    failed: [Key; Reason::ALL.len()],
    takeovers: Key,
    completions: [Key; Reason::ALL.len()],
    abandoned: [Key; HOWS.len()],
    lost: [Key; Reason::ALL.len()],
    extend: [Key; Reason::ALL.len()],
    run_seconds: Key,
    running: Key,
    waiters: Key,
}

impl OnceClass {
    /// The label of this name; what it counts begins at zero.
    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        let class = ONCES.lock().named(name)?;
        class.begin();
        Ok(class)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.0.name
    }

    /// An increase from nothing to one is none that a dashboard could see.
    fn begin(self) {
        let Prepared { answers, completions, abandoned, lost, extend, takeovers, .. } = self.0;
        let usual = [takeovers, &completions[0], &completions[Reason::Lost as usize], &extend[0]];
        let losses = Reason::LOSSES.iter().map(|reason| &lost[*reason as usize]);
        answers.iter().chain(abandoned).chain(usual).chain(losses).for_each(show_counter);
        [&self.0.running, &self.0.waiters].into_iter().for_each(show_gauge);
    }

    /// A begin was answered.
    pub(crate) fn begun(&self, keys: &Keys, begun: &Begun) {
        let number = number(begun);
        count(&self.0.answers[number]);
        match begun {
            // Said by the attempt, whoever gets it.
            Begun::Claimed(_) => {}
            Begun::Completed(replay) => {
                events::once_replayed(self.name(), keys, replay.fence, replay.remaining);
            }
            Begun::Running { holder, .. } | Begun::Unknown { holder, .. } => {
                events::once_refused(self.name(), keys, ANSWERS[number], Some(holder));
            }
            Begun::DifferentRequest => events::once_refused(self.name(), keys, ANSWERS[number], None),
        }
    }

    /// A begin ended with an error.
    pub(crate) fn failed(&self, error: &Error) {
        count(&self.0.failed[Reason::from(error) as usize]);
        events::once_failed(self.name(), error);
    }

    /// An attempt has begun.
    pub(crate) fn claimed(&self, of: OfAttempt<'_>, takeover: bool) {
        events::once_claimed(of, takeover);
        if takeover {
            count(&self.0.takeovers);
            events::once_taken_over(of);
        }
    }

    /// So many more (fewer, if negative) run.
    pub(crate) fn running(&self, change: i32) {
        shift(&self.0.running, change);
    }

    /// So many more (fewer, if negative) wait.
    pub(crate) fn waiting(&self, change: i32) {
        shift(&self.0.waiters, change);
    }

    /// The end was recorded, or could not be.
    pub(crate) fn completed(
        &self,
        of: OfAttempt<'_>,
        stored: &Stored,
        answer: &Result<CompleteReply, Error>,
        ran_for: Duration,
    ) {
        let reason = match answer {
            Ok(CompleteReply::Completed { .. }) => Reason::None,
            Ok(CompleteReply::Strayed(_)) => Reason::Lost,
            Err(error) => error.into(),
        };
        count(&self.0.completions[reason as usize]);
        observe(&self.0.run_seconds, ran_for);
        match reason {
            Reason::None => events::once_completed(of, stored, ran_for),
            _ => events::once_not_recorded(of, reason, ran_for),
        }
    }

    /// An attempt ended without a result.
    pub(crate) fn abandoned(&self, of: OfAttempt<'_>, how: HowAbandoned, ran_for: Duration) {
        let how = how_number(how);
        count(&self.0.abandoned[how]);
        observe(&self.0.run_seconds, ran_for);
        events::once_abandoned(of, HOWS[how], ran_for);
    }

    /// A running attempt ended; a wanted end is no loss.
    pub(crate) fn lost(&self, of: OfAttempt<'_>, reason: &LossReason, ran_for: Duration) {
        if let Some(word) = Reason::of_loss(reason) {
            count(&self.0.lost[word as usize]);
            events::once_lost(of, reason, ran_for);
        }
    }

    /// The watchdog renewed.
    pub(crate) fn renewed(&self) {
        count(&self.0.extend[0]);
    }

    /// The watchdog found that it is not the attempt's any more.
    pub(crate) fn renewal_strayed(&self, strayed: &Strayed) {
        let reason = match strayed {
            Strayed::TakenOver(_) => Reason::HeldByAnother,
            Strayed::Gone | Strayed::Lapsed | Strayed::Settled => Reason::Expired,
        };
        count(&self.0.extend[reason as usize]);
    }

    /// The watchdog could not renew.
    pub(crate) fn renewal_failed(&self, of: OfAttempt<'_>, error: &Error, is_first: bool) {
        count(&self.0.extend[Reason::from(error) as usize]);
        events::once_renew_failed(of, error, is_first);
    }
}

/// Of an answer.
fn number(begun: &Begun) -> usize {
    match begun {
        Begun::Claimed(_) => 0,
        Begun::Completed(_) => 1,
        Begun::Running { .. } => 2,
        Begun::DifferentRequest => 3,
        Begun::Unknown { .. } => 4,
    }
}

fn how_number(how: HowAbandoned) -> usize {
    match how {
        HowAbandoned::Undone => 0,
        HowAbandoned::Crashed => 1,
    }
}

impl fmt::Debug for OnceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnceClass({})", self.name())
    }
}

impl Prepared {
    fn new(name: &'static str) -> Self {
        let by_result =
            |metric: Metric| Reason::ALL.map(|reason| key(metric, [name, reason.result(), reason.word()]));
        Self {
            name,
            answers: ANSWERS.map(|answer| key(table::ONCE_BEGIN, [name, answer, "none"])),
            failed: Reason::ALL.map(|reason| key(table::ONCE_BEGIN, [name, "failed", reason.word()])),
            takeovers: key(table::ONCE_TAKEOVERS, [name]),
            completions: by_result(table::ONCE_COMPLETE),
            abandoned: HOWS.map(|how| key(table::ONCE_ABANDONED, [name, how])),
            lost: Reason::ALL.map(|reason| key(table::ONCE_LOST, [name, reason.word()])),
            extend: by_result(table::ONCE_EXTEND),
            run_seconds: key(table::ONCE_RUN_SECONDS, [name]),
            running: key(table::ONCE_RUNNING, [name]),
            waiters: key(table::ONCE_WAITERS, [name]),
        }
    }
}

/// Every name so far, at zero.
pub(super) fn begin_all() {
    let named: Vec<OnceClass> = ONCES.lock().0.values().copied().collect();
    named.into_iter().for_each(OnceClass::begin);
}

/// The names of a process. What is in here stays: bounded by [`MAX_ONCES`].
pub(super) struct Onces(BTreeMap<&'static str, OnceClass>);

impl Onces {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn named(&mut self, name: &str) -> Result<OnceClass, Error> {
        const OPERATION: &str = "once";
        if let Some(class) = self.0.get(name) {
            return Ok(*class);
        }
        check_name(OPERATION, "name of what runs once", name)?;
        if self.0.len() >= MAX_ONCES {
            let detail = format!(
                "`{name}` would be one too many: a process has at most {MAX_ONCES} names of what runs once; a name is for a \
                 kind of operation, and tells keys apart by itself"
            );
            return Err(Error::bad_argument(OPERATION, detail));
        }
        let name: &'static str = name.to_owned().leak();
        let class = OnceClass(Box::leak(Box::new(Prepared::new(name))));
        self.0.insert(name, class);
        Ok(class)
    }
}
