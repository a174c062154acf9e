//! Resolve: an operator says what became of an attempt that went away.

use std::time::Duration;

use super::cell::{OnceCell, only};
use super::policy::Retention;
use super::record::{Phase, RecordState, retained};
use super::stored::Stored;
use crate::decision::{Decision, WrongType};
use crate::lock::{Fence, Holder, OwnerToken};
use crate::time::Timestamp;

/// Resolves exactly the attempt that was shown, if its lease has ended and nothing has begun since.
///
/// The key is remembered for the retention from now on, or as long as it would have been, whichever is longer.
/// *Repeating* is harmless.
#[derive(Clone, Debug)]
pub struct Resolve {
    /// The fence that was shown.
    pub fence: Fence,
    /// The operator.
    pub token: OwnerToken,
    /// What became of it.
    pub resolution: Resolution,
    /// For how long that is remembered.
    pub retain: Retention,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// What became of an attempt, as an operator found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It had no effect: the next caller runs it.
    Undone,
    /// It had its effect: later callers are answered this.
    Completed(Stored),
}

/// The answer to a [`Resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveReply {
    /// It is resolved.
    Resolved,
    /// There is no record.
    Gone,
    /// The attempt is alive.
    Running {
        /// Whose.
        holder: Holder,
        /// What is left of its lease.
        remaining: Duration,
    },
    /// Another attempt has begun since.
    Changed(Fence),
    /// It has ended already.
    Settled,
}

impl Decision for Resolve {
    type State = OnceCell;
    type Reply = ResolveReply;
    const NAME: &'static str = "resolve";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [OnceCell], now: Timestamp) -> Result<ResolveReply, WrongType> {
        let cell = only(cells)?;
        let Some((record, phase)) = cell.live(now) else { return Ok(ResolveReply::Gone) };
        if record.fence != self.fence.get() {
            return Ok(ResolveReply::Changed(Fence::new(record.fence)));
        }
        match phase {
            Phase::Running => {
                let remaining = Timestamp::from_micros(record.ends).since(now);
                return Ok(ResolveReply::Running { holder: record.token.holder(), remaining });
            }
            Phase::Lapsed | Phase::Unknown => {}
            _ if record.token == self.token => return Ok(ResolveReply::Resolved),
            _ => return Ok(ResolveReply::Settled),
        }
        let ends = retained(self.retain, now).max(record.kept_until().min(super::MAX_ENDS));
        cell.change(|record| {
            record.token = self.token.clone();
            record.settle(self.resolution.state(), ends);
        });
        Ok(ResolveReply::Resolved)
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}

impl Resolution {
    fn state(&self) -> RecordState {
        match self {
            Self::Undone => RecordState::Open,
            Self::Completed(stored) => RecordState::Completed(stored.clone()),
        }
    }
}
