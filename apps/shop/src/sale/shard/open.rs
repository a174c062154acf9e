//! Open a shard, or learn that it is there.

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Book, Shard, only};

/// Makes a shard with so many units, where the store has none. One that is there keeps its numbers; only its epoch is
/// raised, so that transfers from before are not received any more. What a lost one had lent, and nobody received, is in
/// `left`: its notes go.
#[derive(Clone, Debug)]
pub struct Open {
    /// The sale begins.
    pub opens: Timestamp,
    /// The sale ends.
    pub closes: Timestamp,
    /// The store forgets it. Whole milliseconds.
    pub until: Timestamp,
    /// Of who opens it: greater than that of anybody before.
    pub epoch: u64,
    /// Units that can be bought.
    pub left: u64,
    /// Units that were sold before the store lost the shard.
    pub sold: u64,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to an [`Open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It is there now.
    Created,
    /// It was there.
    Kept,
    /// It would have been forgotten by now.
    Over,
}

impl Decision for Open {
    type State = Shard;
    type Reply = Opened;
    const NAME: &'static str = "open";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], now: Timestamp) -> Result<Opened, WrongType> {
        let shard = only(cells)?;
        if let Some(book) = &mut shard.book {
            book.epoch = book.epoch.max(self.epoch);
            return Ok(Opened::Kept);
        }
        if now >= self.until {
            return Ok(Opened::Over);
        }
        let Self { opens, closes, epoch, left, sold, .. } = *self;
        shard.book = Some(Book { opens, closes, epoch, left, sold, withheld: 0, moves: 0 });
        shard.until = self.until;
        shard.lent.clear();
        Ok(Opened::Created)
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}
