//! Checking: takes from all limits what a call asks for, or nothing.

use std::sync::Arc;

use super::ask::{Ask, Asks};
use super::bucket::Bucket;
use super::cell::{LimitCell, Stored};
use super::evaluate::{answer, evaluate, one, settle};
use super::level::{Foreign, Level, open_all};
use super::quota::{Algorithm, Quota};
use super::standing::{Checked, Outcome};
use crate::decision::{Decision, State as _, WrongType};
use crate::time::Timestamp;

/// Calls on the same limits of the same subjects, decided one after another in one step. The i-th key is that of the i-th
/// quota.
///
/// A call that is refused changes nothing; what was found damaged (no expiry, or a time that no clock of this server
/// could have written) is written anew.
#[derive(Clone, Debug)]
pub struct Check {
    /// What they are held to.
    pub quotas: Arc<[Quota]>,
    /// The calls.
    pub asks: Asks,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReply {
    /// For each call, in their order.
    pub checked: Vec<Checked>,
    /// How many keys were found damaged and are written anew.
    pub repaired: usize,
}

impl Decision for Check {
    type State = LimitCell;
    type Reply = CheckReply;
    const NAME: &'static str = "check";
    /// Twice would charge twice.
    const REPEATABLE: bool = false;

    fn decide(&self, cells: &mut [LimitCell], now: Timestamp) -> Result<CheckReply, WrongType> {
        let mut levels = open_all(&self.quotas, cells, now)?;
        let reply = CheckReply::of(&mut levels, &self.asks);
        let has_taken = reply.has_taken();
        cells.iter_mut().zip(levels).for_each(|(cell, level)| level.close(cell, has_taken, now));
        Ok(reply)
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }

    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}

/// [`Check`] of one call on one limit, without a list of anything. What needs no
/// cell is done when it was let go of.
#[inline]
pub(crate) fn check_one(quota: Quota, ask: Ask, cell: impl Cell) -> Result<Checked, WrongType> {
    if let Algorithm::TokenBucket { capacity, refill, period_us } = quota.algorithm() {
        let numbers = (capacity, refill, period_us);
        let (outcome, bucket) = cell.change(|cell, now| settle_bucket(cell, numbers, ask, now))?;
        Ok(answer(outcome, &bucket, ask))
    } else {
        cell.change(|cell, now| settle_any(cell, quota, ask, now))
    }
}

/// Where the cell of one key is.
pub(crate) trait Cell {
    /// Runs `change` on it, at a moment.
    fn change<R>(self, change: impl FnOnce(&mut LimitCell, Timestamp) -> R) -> R;
}

#[inline]
fn settle_bucket(
    cell: &mut LimitCell,
    (capacity, refill, period_us): (u64, u64, u64),
    ask: Ask,
    now: Timestamp,
) -> Result<(Outcome, Bucket), WrongType> {
    cell.expire(now);
    let stored = match cell.stored {
        Stored::Empty => None,
        Stored::Bucket(full) if full.part < refill => Some(full),
        _ => return Err(WrongType { index: 0, side: false }),
    };
    let (mut bucket, is_faulty) = Bucket::load(capacity, refill, period_us, stored, now);
    let outcome = settle(std::slice::from_mut(&mut bucket), ask);
    if outcome.granted() > 0 || is_faulty || !cell.is_bounded() {
        *cell = LimitCell::of_bucket(bucket.stored(), now);
    }
    Ok((outcome, bucket))
}

fn settle_any(cell: &mut LimitCell, quota: Quota, ask: Ask, now: Timestamp) -> Result<Checked, WrongType> {
    cell.expire(now);
    let opened = Level::open(quota, cell, now).map_err(|Foreign| WrongType { index: 0, side: false });
    let mut level = opened?;
    let checked = one(std::slice::from_mut(&mut level), ask);
    level.close(cell, checked.granted() > 0, now);
    Ok(checked)
}

impl CheckReply {
    /// Decides `asks` on `levels`.
    pub fn of(levels: &mut [Level], asks: &[Ask]) -> Self {
        let repaired = levels.iter().filter(|level| level.needs_repair).count();
        Self { checked: evaluate(levels, asks), repaired }
    }

    /// How much all calls were granted together.
    #[inline]
    pub fn granted(&self) -> u64 {
        self.checked.iter().map(Checked::granted).sum()
    }

    fn has_taken(&self) -> bool {
        self.granted() > 0
    }
}

impl Checked {
    /// How much was charged.
    #[inline]
    pub fn granted(&self) -> u64 {
        self.outcome.granted()
    }
}

impl Outcome {
    /// How much was charged.
    #[inline]
    pub fn granted(self) -> u64 {
        match self {
            Self::Allowed { granted } => granted,
            Self::Denied { .. } | Self::Never { .. } => 0,
        }
    }
}
