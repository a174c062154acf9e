//! Inspect: who holds each key, and for how long. Changes nothing.

use std::time::Duration;

use super::cell::{FenceMark, LockCell, Main};
use super::fence::Fence;
use super::presence::Waiter;
use super::token::Holder;
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// Looks at every key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inspect;

/// What one key looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Who holds it; `None` when it is free or not a lock.
    pub holder: Option<Holder>,
    /// How much is left; `None` without a holder, or where the key has no expiry.
    pub remaining: Option<Duration>,
    /// The greatest fence reserved so far, while its side key lives. Nobody has a greater one; a keeper that passes a
    /// lock on among its own callers reserves several at once.
    pub fence: Option<Fence>,
    /// Who waits, by keeper: those that noted it within the last 2.5 s. Clients of other libraries are not seen.
    pub waiters: Vec<Waiter>,
    /// The key holds a list, a hash, …: not a lock.
    pub wrong_type: bool,
}

impl Inspection {
    /// How many callers wait, over all keepers.
    pub fn waiting(&self) -> u64 {
        Waiter::total(&self.waiters)
    }
}

impl Decision for Inspect {
    type State = LockCell;
    type Reply = Vec<Inspection>;
    const NAME: &'static str = "inspect";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LockCell], now: Timestamp) -> Result<Vec<Inspection>, WrongType> {
        Ok(cells.iter().map(|cell| inspect(cell, now)).collect())
    }
}

fn inspect(cell: &LockCell, now: Timestamp) -> Inspection {
    let occupant = cell.occupant();
    Inspection {
        holder: occupant.map(super::cell::Occupant::holder),
        remaining: occupant.and_then(|occupant| occupant.remaining(now)),
        fence: match cell.fence {
            FenceMark::Last { number, .. } => Some(Fence::new(number)),
            _ => None,
        },
        waiters: cell.present.waiters(),
        wrong_type: cell.main == Main::WrongType,
    }
}
