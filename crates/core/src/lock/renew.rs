//! Renew: lengthen a lease that is still held.

use super::acquire::first_busy;
use super::cell::{LockCell, check_mains};
use super::lease::Lease;
use super::token::{Holder, OwnerToken};
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// Lengthens the lease of every key to `lease` from now, if `token` holds them all; else changes none.
///
/// Never creates a key (invariant 10), never shortens a lease. *Repeating* is harmless.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The acquisition.
    pub token: OwnerToken,
    /// From the moment of the decision.
    pub lease: Lease,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to a [`Renew`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenewReply {
    /// The lease runs for at least its full length from now.
    Renewed,
    /// Nobody holds the key at this index: the lease had ended (or the key was removed).
    Expired(usize),
    /// Somebody else holds it.
    HeldByAnother(usize, Holder),
}

impl Decision for Renew {
    type State = LockCell;
    type Reply = RenewReply;
    const NAME: &'static str = "renew";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LockCell], now: Timestamp) -> Result<RenewReply, WrongType> {
        check_mains(cells)?;
        if let Some(busy) = first_busy(cells, &self.token, now) {
            return Ok(RenewReply::HeldByAnother(busy.index, busy.holder));
        }
        if let Some(index) = cells.iter().position(|cell| cell.occupant().is_none()) {
            return Ok(RenewReply::Expired(index));
        }
        cells.iter_mut().for_each(|cell| cell.lengthen(self.lease, now));
        Ok(RenewReply::Renewed)
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}
