//! Complete: the operation ended with this result.

use std::time::Duration;

use super::cell::{OnceCell, Strayed, only};
use super::policy::Retention;
use super::record::{RecordState, retained};
use super::stored::Stored;
use crate::decision::{Decision, WrongType};
use crate::lock::OwnerToken;
use crate::time::Timestamp;

/// Stores the result and ends the claim in one step, if `token` has it: running, or lapsed and not taken over.
///
/// *Repeating* is harmless: a record that `token` completed before stays as it is, with its retention.
#[derive(Clone, Debug)]
pub struct Complete {
    /// The attempt.
    pub token: OwnerToken,
    /// What is kept of the result.
    pub stored: Stored,
    /// For how long, from now on.
    pub retain: Retention,
}

/// The answer to a [`Complete`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompleteReply {
    /// The result is kept for so long.
    Completed {
        /// What is left of its retention.
        remaining: Duration,
    },
    /// Nothing was stored.
    Strayed(Strayed),
}

impl Decision for Complete {
    type State = OnceCell;
    type Reply = CompleteReply;
    const NAME: &'static str = "complete";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [OnceCell], now: Timestamp) -> Result<CompleteReply, WrongType> {
        let cell = only(cells)?;
        let remaining =
            |ends| CompleteReply::Completed { remaining: Timestamp::from_micros(ends).since(now) };
        let record = match cell.claimed_by(&self.token, now) {
            Err(strayed) => return Ok(CompleteReply::Strayed(strayed)),
            Ok((record, _)) => record,
        };
        match record.state {
            RecordState::Completed(_) => return Ok(remaining(record.ends)),
            RecordState::Open => return Ok(CompleteReply::Strayed(Strayed::Settled)),
            RecordState::Running { .. } => {}
        }
        let ends = retained(self.retain, now);
        cell.change(|record| record.settle(RecordState::Completed(self.stored.clone()), ends));
        Ok(remaining(ends))
    }
}
