//! Refunding: undoes what was taken for work that did not happen.

use std::sync::Arc;

use super::cell::LimitCell;
use super::evaluate::standings;
use super::level::{Level, load_all};
use super::quota::Quota;
use super::standing::Standings;
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// Gives `cost` back to every limit, as far as that much was used; never more, and no window moves. A sliding log gives
/// back its newest calls; a window gives back only to the one that runs now.
#[derive(Clone, Debug)]
pub struct Refund {
    /// The limits.
    pub quotas: Arc<[Quota]>,
    /// How much.
    pub cost: u64,
    /// See [`Decision::not_after`]: a refund that comes late would be a gift.
    pub not_after: Timestamp,
}

/// How each limit stands afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refunded {
    /// In the order of the limits.
    pub standings: Standings,
    /// How many keys were found damaged and are written anew.
    pub repaired: usize,
}

impl Decision for Refund {
    type State = LimitCell;
    type Reply = Refunded;
    const NAME: &'static str = "refund";
    /// Twice would give back twice.
    const REPEATABLE: bool = false;

    fn decide(&self, cells: &mut [LimitCell], now: Timestamp) -> Result<Refunded, WrongType> {
        let mut levels = load_all(&self.quotas, cells, now)?;
        let repaired = levels.iter().filter(|level| level.needs_repair).count();
        levels.iter_mut().for_each(|level| level.give_back(self.cost));
        let refunded = Refunded::of(&levels, repaired);
        for (cell, level) in cells.iter_mut().zip(levels) {
            *cell = level.into_cell(now);
        }
        Ok(refunded)
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }

    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}

impl Refunded {
    /// How `levels` stand.
    pub fn of(levels: &[Level], repaired: usize) -> Self {
        Self { standings: standings(levels, 0), repaired }
    }
}
