//! Renew a permit that is still held.

use super::cell::{PermitCell, only};
use crate::decision::{Decision, WrongType};
use crate::lock::lease::Lease;
use crate::lock::token::OwnerToken;
use crate::time::Timestamp;

/// Lengthens the lease of the permit that `token` holds to `lease` from now.
///
/// Never takes a permit (invariant 10), never shortens a lease. *Repeating* is harmless.
#[derive(Clone, Debug)]
pub struct RenewPermit {
    /// The acquisition.
    pub token: OwnerToken,
    /// From the moment of the decision.
    pub lease: Lease,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to a [`RenewPermit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewPermitReply {
    /// The lease runs for at least its full length from now.
    Renewed,
    /// The token holds no permit: the lease had ended, or it was removed.
    Expired,
}

impl Decision for RenewPermit {
    type State = PermitCell;
    type Reply = RenewPermitReply;
    const NAME: &'static str = "renew_permit";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [PermitCell], now: Timestamp) -> Result<RenewPermitReply, WrongType> {
        let permits = only(cells)?;
        if permits.ends(&self.token).is_none() {
            return Ok(RenewPermitReply::Expired);
        }
        permits.lengthen(&self.token, self.lease, now);
        Ok(RenewPermitReply::Renewed)
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}
