//! Swap: hand a held lock to another token without ever letting go of it.

use super::acquire::first_busy;
use super::cell::{LockCell, check_mains, highest_fence, take_all};
use super::fence::{Fence, FenceRequest};
use super::lease::Lease;
use super::token::{Holder, OwnerToken};
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// Replaces `from` by `to` on every key, restarts the lease at `lease`, and raises the fence; or changes nothing.
///
/// *Repeating* is harmless: where `to` already holds every key, the same fence is answered.
#[derive(Clone, Debug)]
pub struct Swap {
    /// Who holds now.
    pub from: OwnerToken,
    /// Who shall hold.
    pub to: OwnerToken,
    /// The new holder's, from the moment of the decision.
    pub lease: Lease,
    /// Which fences to hand out.
    pub fences: FenceRequest,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to a [`Swap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwapReply {
    /// `to` holds. Its (first) fence.
    Swapped(Fence),
    /// Nobody holds the key at this index.
    Expired(usize),
    /// Neither `from` nor `to` holds it.
    HeldByAnother(usize, Holder),
}

impl Decision for Swap {
    type State = LockCell;
    type Reply = SwapReply;
    const NAME: &'static str = "swap";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LockCell], now: Timestamp) -> Result<SwapReply, WrongType> {
        check_mains(cells)?;
        if cells.iter().all(|cell| cell.is_held_with(&self.to)) {
            let last = highest_fence(cells)?;
            if self.fences.fits(last) {
                cells.iter_mut().for_each(|cell| cell.lengthen(self.lease, now));
                return Ok(SwapReply::Swapped(self.fences.first_of(last)));
            }
        } else if let Some(busy) = first_busy(cells, &self.from, now) {
            return Ok(SwapReply::HeldByAnother(busy.index, busy.holder));
        }
        if let Some(index) = cells.iter().position(|cell| cell.occupant().is_none()) {
            return Ok(SwapReply::Expired(index));
        }
        let previous = highest_fence(cells)?;
        Ok(SwapReply::Swapped(take_all(cells, &self.to, self.lease, self.fences, previous, now)))
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}
