//! Keep alive: restart the lease of a claim that runs.

use super::begin::lease_end;
use super::cell::{OnceCell, Strayed, only};
use super::record::Phase;
use crate::decision::{Decision, WrongType};
use crate::lock::{Lease, OwnerToken};
use crate::time::Timestamp;

/// Restarts the lease (never shortens it), if `token` has the claim and the lease has not ended. Never creates a record.
///
/// *Repeating* is harmless.
#[derive(Clone, Debug)]
pub struct KeepAlive {
    /// The attempt.
    pub token: OwnerToken,
    /// From the moment of the decision.
    pub lease: Lease,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to a [`KeepAlive`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepAliveReply {
    /// The lease runs for at least its full length from now.
    Kept,
    /// The attempt has no right to run.
    Strayed(Strayed),
}

impl Decision for KeepAlive {
    type State = OnceCell;
    type Reply = KeepAliveReply;
    const NAME: &'static str = "keep_alive";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [OnceCell], now: Timestamp) -> Result<KeepAliveReply, WrongType> {
        let cell = only(cells)?;
        let strayed = match cell.claimed_by(&self.token, now) {
            Err(strayed) => strayed,
            Ok((_, Phase::Running)) => {
                cell.change(|record| record.ends = record.ends.max(lease_end(self.lease, now)));
                return Ok(KeepAliveReply::Kept);
            }
            Ok((_, Phase::Lapsed | Phase::Unknown)) => Strayed::Lapsed,
            Ok(_) => Strayed::Settled,
        };
        Ok(KeepAliveReply::Strayed(strayed))
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}
