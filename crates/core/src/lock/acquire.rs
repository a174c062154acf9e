//! Acquire: take all keys if all are free, in one step with expiry, token and fence.

use std::time::Duration;

use super::cell::{LockCell, check_mains, highest_fence, take_all};
use super::fence::{Fence, FenceRequest};
use super::lease::Lease;
use super::token::{Holder, OwnerToken};
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// Takes every key for `token`, or none.
///
/// *Repeating* with the same token is harmless: where all keys are already held with it, the lease is restarted in
/// full (never shortened) and the same fence is answered, so a lost reply is asked for again.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Unique per acquisition.
    pub token: OwnerToken,
    /// From the moment of the decision.
    pub lease: Lease,
    /// Which fences to hand out.
    pub fences: FenceRequest,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to an [`Acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireReply {
    /// All keys are held with the token. The (first) fence.
    Granted(Fence),
    /// At least one key is held by somebody else.
    Busy(Busy),
}

/// Who is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Which of the keys.
    pub index: usize,
    /// Who holds it.
    pub holder: Holder,
    /// How much is left of the lease; `None` where the key has no expiry.
    pub remaining: Option<Duration>,
}

impl Decision for Acquire {
    type State = LockCell;
    type Reply = AcquireReply;
    const NAME: &'static str = "acquire";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LockCell], now: Timestamp) -> Result<AcquireReply, WrongType> {
        check_mains(cells)?;
        if let Some(busy) = first_busy(cells, &self.token, now) {
            return Ok(AcquireReply::Busy(busy));
        }
        let previous = highest_fence(cells)?;
        let repeated = cells.iter().all(|cell| cell.is_held_with(&self.token));
        if repeated && self.fences.fits(previous) {
            cells.iter_mut().for_each(|cell| cell.lengthen(self.lease, now));
            return Ok(AcquireReply::Granted(self.fences.first_of(previous)));
        }
        Ok(AcquireReply::Granted(take_all(cells, &self.token, self.lease, self.fences, previous, now)))
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}

/// The first cell that somebody other than `token` occupies.
pub(super) fn first_busy(cells: &[LockCell], token: &OwnerToken, now: Timestamp) -> Option<Busy> {
    cells.iter().enumerate().find_map(|(index, cell)| {
        let occupant = cell.occupant().filter(|occupant| occupant.token != *token)?;
        Some(Busy { index, holder: occupant.holder(), remaining: occupant.remaining(now) })
    })
}
