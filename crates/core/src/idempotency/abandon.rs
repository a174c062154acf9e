//! Abandon: the attempt ends without a result.

use super::cell::{OnceCell, Strayed, only};
use super::record::{MAX_ENDS, RecordState};
use crate::decision::{Decision, WrongType};
use crate::lock::OwnerToken;
use crate::time::Timestamp;

/// Ends the claim without a result, if `token` has it.
///
/// *Repeating* is harmless.
#[derive(Clone, Debug)]
pub struct Abandon {
    /// The attempt.
    pub token: OwnerToken,
    /// What it leaves behind.
    pub how: HowAbandoned,
}

/// How an attempt ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowAbandoned {
    /// It had no effect: the key is open, also for a different request. But where an attempt before it crashed, that one's
    /// effect is as unknown as before: the key is lapsed again, and the next attempt a takeover again.
    Undone,
    /// It may have had its effect: as if its lease had ended now.
    Crashed,
}

/// The answer to an [`Abandon`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbandonReply {
    /// The claim has ended.
    Abandoned,
    /// It was not this attempt's.
    Strayed(Strayed),
}

impl Decision for Abandon {
    type State = OnceCell;
    type Reply = AbandonReply;
    const NAME: &'static str = "abandon";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [OnceCell], now: Timestamp) -> Result<AbandonReply, WrongType> {
        let cell = only(cells)?;
        let record = match cell.claimed_by(&self.token, now) {
            Err(strayed) => return Ok(AbandonReply::Strayed(strayed)),
            Ok((record, _)) => record,
        };
        match (&record.state, self.how) {
            (RecordState::Completed(_), _) => return Ok(AbandonReply::Strayed(Strayed::Settled)),
            (RecordState::Open, _) => {}
            (RecordState::Running { .. }, HowAbandoned::Crashed) => {
                cell.change(|record| record.ends = record.ends.min(now.as_micros()));
            }
            (RecordState::Running { takeover: true }, HowAbandoned::Undone) => {
                // Lapsed at once, also under a policy that holds: for the attempt that crashed, that time is over.
                cell.change(|record| {
                    record.ends = record.ends.min(now.as_micros().saturating_sub(record.hold))
                });
            }
            (RecordState::Running { takeover: false }, HowAbandoned::Undone) => {
                let ends = (now.as_micros() + record.retain).min(MAX_ENDS);
                cell.change(|record| record.settle(RecordState::Open, ends));
            }
        }
        Ok(AbandonReply::Abandoned)
    }
}
