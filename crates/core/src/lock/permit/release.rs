//! Release the permit that a token holds, and no other.

use super::cell::{PermitCell, only};
use crate::decision::{Decision, WrongType};
use crate::lock::token::OwnerToken;
use crate::time::Timestamp;

/// Gives back the permit that `token` holds.
///
/// *Repeating* is harmless. It takes nothing, so it has no "not after".
#[derive(Clone, Debug)]
pub struct ReleasePermit {
    /// The acquisition.
    pub token: OwnerToken,
}

/// The answer to a [`ReleasePermit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleasePermitReply {
    /// It was held until now.
    Released,
    /// The token holds none: the lease had ended, or it was released before.
    Expired,
}

impl Decision for ReleasePermit {
    type State = PermitCell;
    type Reply = ReleasePermitReply;
    const NAME: &'static str = "release_permit";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [PermitCell], _now: Timestamp) -> Result<ReleasePermitReply, WrongType> {
        Ok(match only(cells)?.remove(&self.token) {
            true => ReleasePermitReply::Released,
            false => ReleasePermitReply::Expired,
        })
    }
}
