//! Remember who was served, after the store has forgotten.

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Mark, Shard, only};
use crate::sale::names::{Buyer, Ticket};

/// Marks buyers as served by the tickets that the database has. A mark that is there stays. It may come before the shard
/// is [opened](super::Open), so that nobody buys a second time in between.
///
/// Answers how many were not marked before.
#[derive(Clone, Debug)]
pub struct Remember {
    /// The store forgets the sale. Whole milliseconds.
    pub until: Timestamp,
    /// Who has which ticket.
    pub marks: Vec<(Buyer, Ticket)>,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

impl Decision for Remember {
    type State = Shard;
    type Reply = u64;
    const NAME: &'static str = "remember";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], now: Timestamp) -> Result<u64, WrongType> {
        let shard = only(cells)?;
        if now >= self.until {
            return Ok(0);
        }
        let before = shard.buyers.len();
        for (buyer, ticket) in &self.marks {
            shard.buyers.entry(buyer.clone()).or_insert_with(|| Mark::Served(ticket.clone()));
        }
        if !self.marks.is_empty() {
            shard.marks_until = self.until;
        }
        Ok((shard.buyers.len() - before) as u64)
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}
