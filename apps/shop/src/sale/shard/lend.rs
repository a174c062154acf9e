//! Lend units to another shard.

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Lent, Shard, only};
use crate::sale::names::Transfer;

/// Takes half of what is left here (one at least), and notes in the same step that it is on its way to another shard.
///
/// *Repeating* with the same transfer lends nothing more, also after it was settled.
#[derive(Clone, Debug)]
pub struct Lend {
    /// Unique.
    pub transfer: Transfer,
    /// The shard that will receive them.
    pub to: u8,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to a [`Lend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lending {
    /// On its way.
    Lent(Lent),
    /// Nothing is left here.
    Nothing,
    /// It was settled before.
    Settled,
    /// The store has no such shard.
    Unknown,
}

impl Decision for Lend {
    type State = Shard;
    type Reply = Lending;
    const NAME: &'static str = "lend";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], _now: Timestamp) -> Result<Lending, WrongType> {
        let shard = only(cells)?;
        let Some(book) = &mut shard.book else { return Ok(Lending::Unknown) };
        if let Some(lent) = shard.lent.get(&self.transfer) {
            return Ok(Lending::Lent(*lent));
        }
        if shard.moved.contains(&self.transfer) {
            return Ok(Lending::Settled);
        }
        if book.left == 0 {
            return Ok(Lending::Nothing);
        }
        let lent = Lent { to: self.to, units: book.left.div_ceil(2), epoch: book.epoch };
        book.left -= lent.units;
        book.moves += 1;
        shard.lent.insert(self.transfer.clone(), lent);
        Ok(Lending::Lent(lent))
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}
