//! Raise the fence: what a majority of independent servers does with the greatest fence that one of them gave.

use std::time::Duration;

use super::acquire::first_busy;
use super::cell::{LockCell, check_mains, highest_fence};
use super::fence::{FENCE_MAX, MAX_FENCE_BLOCK};
use super::token::{Holder, OwnerToken};
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// Lifts the fence of every key to at least `to`, if `token` holds them all; else changes none.
///
/// Never lowers a fence, never touches a lease. *Repeating* is harmless.
#[derive(Clone, Debug)]
pub struct RaiseFence {
    /// The acquisition.
    pub token: OwnerToken,
    /// The last number that is given out with it.
    pub to: u64,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to a [`RaiseFence`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaiseFenceReply {
    /// Whoever takes the keys next gets a greater one.
    Raised,
    /// Nobody holds the key at this index.
    Expired(usize),
    /// Somebody else holds it.
    HeldByAnother(usize, Holder),
}

impl RaiseFence {
    /// The number as it is written: nothing of ours comes near the end of the numbers.
    pub fn number(&self) -> u64 {
        self.to.min(FENCE_MAX - u64::from(MAX_FENCE_BLOCK))
    }
}

impl Decision for RaiseFence {
    type State = LockCell;
    type Reply = RaiseFenceReply;
    const NAME: &'static str = "raise_fence";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LockCell], now: Timestamp) -> Result<RaiseFenceReply, WrongType> {
        check_mains(cells)?;
        if let Some(busy) = first_busy(cells, &self.token, now) {
            return Ok(RaiseFenceReply::HeldByAnother(busy.index, busy.holder));
        }
        if let Some(index) = cells.iter().position(|cell| cell.occupant().is_none()) {
            return Ok(RaiseFenceReply::Expired(index));
        }
        let number = highest_fence(cells)?.max(self.number());
        for cell in cells {
            let left = cell.occupant().and_then(|occupant| occupant.remaining(now));
            cell.mark(number, left.unwrap_or(Duration::ZERO), now);
        }
        Ok(RaiseFenceReply::Raised)
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}
