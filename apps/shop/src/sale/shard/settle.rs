//! Settle a transfer.

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Shard, only};
use crate::sale::names::Transfer;

/// Strikes out the lender's note, once: the units were received, or never will be and come back.
#[derive(Clone, Debug)]
pub struct Settle {
    /// Which.
    pub transfer: Transfer,
    /// The receiver answered that it is [stale](super::Received::Stale).
    pub back: bool,
}

/// The answer to a [`Settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Now.
    Settled,
    /// There is no such note: it was settled before.
    Nothing,
    /// The store has no such shard.
    Unknown,
}

impl Decision for Settle {
    type State = Shard;
    type Reply = Settled;
    const NAME: &'static str = "settle";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], _now: Timestamp) -> Result<Settled, WrongType> {
        let shard = only(cells)?;
        let Some(book) = &mut shard.book else { return Ok(Settled::Unknown) };
        let Some(lent) = shard.lent.remove(&self.transfer) else { return Ok(Settled::Nothing) };
        if self.back {
            book.left += lent.units;
        }
        book.moves += 1;
        shard.moved.insert(self.transfer.clone());
        Ok(Settled::Settled)
    }
}
