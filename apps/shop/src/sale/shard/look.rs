//! Look at a shard.

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Lent, Shard, only};
use crate::sale::names::Transfer;

/// How a shard stands, all at one moment. Changes nothing. `None`: the store has no such shard.
#[derive(Clone, Copy, Debug)]
pub struct Look;

/// The answer to a [`Look`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Units that can be bought.
    pub left: u64,
    /// Units for which somebody has a ticket.
    pub sold: u64,
    /// Sold units whose ticket was refused, and which stay out of the sale.
    pub withheld: u64,
    /// Two looks between which this did not change saw no unit come or go, but for sales.
    pub moves: u64,
    /// Transfers of an older epoch are not received here.
    pub epoch: u64,
    /// Tickets in the outbox, those that a worker has at the moment included.
    pub queued: u64,
    /// Buyers who are remembered: all that were served, and some that were refused.
    pub marks: u64,
    /// What is on its way from here to other shards.
    pub lent: Vec<(Transfer, Lent)>,
}

impl Looked {
    /// Buyers who have a unit and are not remembered, because the store has lost their marks; at least so many.
    pub(crate) fn unmarked(&self) -> u64 {
        self.sold.saturating_sub(self.withheld).saturating_sub(self.marks)
    }
}

impl Decision for Look {
    type State = Shard;
    type Reply = Option<Looked>;
    const NAME: &'static str = "look";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], _now: Timestamp) -> Result<Option<Looked>, WrongType> {
        let shard = only(cells)?;
        let Some(book) = &shard.book else { return Ok(None) };
        Ok(Some(Looked {
            left: book.left,
            sold: book.sold,
            withheld: book.withheld,
            moves: book.moves,
            epoch: book.epoch,
            queued: shard.outbox.len() as u64,
            marks: shard.buyers.len() as u64,
            lent: shard.lent.iter().map(|(transfer, lent)| (transfer.clone(), *lent)).collect(),
        }))
    }
}
