//! Checking: takes from all limits what a call asks for, or nothing.

use std::sync::Arc;

use super::ask::Asks;
use super::cell::LimitCell;
use super::evaluate::evaluate;
use super::level::{Level, load_all};
use super::quota::Quota;
use super::standing::Checked;
use crate::decision::{Decision, WrongType};
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
        let mut levels = load_all(&self.quotas, cells, now)?;
        let reply = CheckReply::of(&mut levels, &self.asks);
        let has_taken = reply.has_taken();
        for (cell, level) in cells.iter_mut().zip(levels) {
            if has_taken || level.needs_repair {
                *cell = level.into_cell(now);
            }
        }
        Ok(reply)
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }

    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}

impl CheckReply {
    /// Decides `asks` on `levels`.
    pub fn of(levels: &mut [Level], asks: &[super::Ask]) -> Self {
        let repaired = levels.iter().filter(|level| level.needs_repair).count();
        Self { checked: evaluate(levels, asks), repaired }
    }

    /// How much all calls were granted together.
    pub fn granted(&self) -> u64 {
        self.checked.iter().map(Checked::granted).sum()
    }

    fn has_taken(&self) -> bool {
        self.granted() > 0
    }
}

impl Checked {
    /// How much was charged.
    pub fn granted(&self) -> u64 {
        match self.outcome {
            super::Outcome::Allowed { granted } => granted,
            _ => 0,
        }
    }
}
