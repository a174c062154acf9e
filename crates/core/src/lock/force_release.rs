//! Forced release: an operator removes exactly the holder that was shown.

use std::time::Duration;

use super::cell::{LockCell, Main, check_mains, highest_fence};
use super::fence::{Fence, FenceRequest};
use super::token::Holder;
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// Removes the key if `shown` still holds it, and raises the fence, so that the old holder's writes are refused as
/// soon as the next holder has written. For one key; more are refused by the caller.
#[derive(Clone, Debug)]
pub struct ForceRelease {
    /// What the operator was shown.
    pub shown: Holder,
    /// The highest fence that this client has seen.
    pub seen: u64,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to a [`ForceRelease`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForceReleaseReply {
    /// Removed. The raised fence.
    Released(Fence),
    /// Nobody holds it (any more).
    Free,
    /// Somebody else than was shown holds it now; untouched.
    HeldByAnother(Holder),
}

impl Decision for ForceRelease {
    type State = LockCell;
    type Reply = ForceReleaseReply;
    const NAME: &'static str = "force_release";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LockCell], now: Timestamp) -> Result<ForceReleaseReply, WrongType> {
        check_mains(cells)?;
        let Some(holder) = cells[0].occupant().map(super::cell::Occupant::holder) else {
            return Ok(ForceReleaseReply::Free);
        };
        if holder != self.shown {
            return Ok(ForceReleaseReply::HeldByAnother(holder));
        }
        let previous = highest_fence(cells)?;
        let (fence, last) = FenceRequest { seen: self.seen, block: 1 }.next(previous, now);
        cells[0].main = Main::Free;
        cells[0].mark(last, Duration::ZERO, now);
        Ok(ForceReleaseReply::Released(fence))
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}
