//! Receive units from another shard.

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Shard, only};
use crate::sale::names::Transfer;

/// Adds the units of a transfer, once however often this is delivered, and by whomever.
#[derive(Clone, Debug)]
pub struct Receive {
    /// Which.
    pub transfer: Transfer,
    /// How many units.
    pub units: u64,
    /// The lender's when it lent them.
    pub epoch: u64,
}

/// The answer to a [`Receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Now, or before.
    Received,
    /// This shard was rebuilt since they were lent, so they were counted as the lender's. It will never receive them.
    Stale,
    /// The lender was told of a rebuilding of which this shard was not told yet. Leave it noted.
    Early,
    /// The store has no such shard. Leave it noted.
    Unknown,
}

impl Decision for Receive {
    type State = Shard;
    type Reply = Received;
    const NAME: &'static str = "receive";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], _now: Timestamp) -> Result<Received, WrongType> {
        let shard = only(cells)?;
        // Also where the numbers were lost since: the units were here, and are counted as what the others do not have.
        if shard.moved.contains(&self.transfer) {
            return Ok(Received::Received);
        }
        let Some(book) = &mut shard.book else { return Ok(Received::Unknown) };
        if self.epoch < book.epoch {
            return Ok(Received::Stale);
        }
        if self.epoch > book.epoch {
            return Ok(Received::Early);
        }
        book.left += self.units;
        book.moves += 1;
        shard.moved.insert(self.transfer.clone());
        Ok(Received::Received)
    }
}
