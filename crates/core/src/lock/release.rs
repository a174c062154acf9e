//! Release: give back what this token still holds, and nothing else.

use super::acquire::first_busy;
use super::cell::{LockCell, Main, check_mains};
use super::token::{Holder, OwnerToken};
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// Removes every key that `token` holds. The fence stays.
///
/// *Repeating* is harmless. It takes nothing, so it has no "not after".
#[derive(Clone, Debug)]
pub struct Release {
    /// The acquisition.
    pub token: OwnerToken,
}

/// The answer to a [`Release`]. With several keys, the worst of what was found; those held were released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// All keys were held with this token until now.
    Released,
    /// Nobody held the key at this index: the lease had ended, or it was released before.
    Expired(usize),
    /// Somebody else holds it: the lease had ended long enough for them to enter.
    HeldByAnother(usize, Holder),
}

impl Decision for Release {
    type State = LockCell;
    type Reply = ReleaseReply;
    const NAME: &'static str = "release";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LockCell], now: Timestamp) -> Result<ReleaseReply, WrongType> {
        check_mains(cells)?;
        let other = first_busy(cells, &self.token, now);
        let absent = cells.iter().position(|cell| cell.occupant().is_none());
        for cell in cells.iter_mut().filter(|cell| cell.is_held_with(&self.token)) {
            cell.main = Main::Free;
        }
        Ok(match (other, absent) {
            (Some(busy), _) => ReleaseReply::HeldByAnother(busy.index, busy.holder),
            (None, Some(index)) => ReleaseReply::Expired(index),
            (None, None) => ReleaseReply::Released,
        })
    }
}
