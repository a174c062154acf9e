//! Find what is remembered of a buyer.

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Mark, Shard, only};
use crate::sale::names::Buyer;

/// What the shard remembers of a buyer. Changes nothing.
#[derive(Clone, Debug)]
pub struct Find {
    /// Whom.
    pub buyer: Buyer,
}

/// The answer to a [`Find`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This.
    Mark(Mark),
    /// Nothing.
    Nothing,
    /// The store has no such shard.
    Unknown,
}

impl Decision for Find {
    type State = Shard;
    type Reply = Found;
    const NAME: &'static str = "find";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], _now: Timestamp) -> Result<Found, WrongType> {
        let shard = only(cells)?;
        if shard.book.is_none() {
            return Ok(Found::Unknown);
        }
        Ok(shard.buyers.get(&self.buyer).map_or(Found::Nothing, |mark| Found::Mark(mark.clone())))
    }
}
