//! Leave: nobody of this keeper waits any more.

use super::cell::LockCell;
use super::presence::KeeperName;
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// Removes a keeper's note of presence from every key. *Repeating* is harmless.
#[derive(Clone, Debug)]
pub struct Leave {
    /// Which keeper.
    pub keeper: KeeperName,
}

impl Decision for Leave {
    type State = LockCell;
    type Reply = ();
    const NAME: &'static str = "leave";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LockCell], _now: Timestamp) -> Result<(), WrongType> {
        cells.iter_mut().for_each(|cell| cell.present.remove(&self.keeper));
        Ok(())
    }
}
