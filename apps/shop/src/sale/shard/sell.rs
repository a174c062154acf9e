//! Sell one unit.

use std::time::Duration;

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Mark, Shard, only};
use crate::sale::names::{Buyer, Ticket};

/// Sets one unit aside for `buyer`, remembers them, and puts the ticket into the outbox. All of it, or nothing.
///
/// *Repeating* with the same ticket answers the same and sets nothing aside. A ticket that was refused is not sold again:
/// a buyer who tries again brings another one.
#[derive(Clone, Debug)]
pub struct Sell {
    /// Who buys. One unit each.
    pub buyer: Buyer,
    /// Unique per click.
    pub ticket: Ticket,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to a [`Sell`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sold {
    /// The ticket is the buyer's.
    Sold,
    /// The buyer has another ticket.
    Served(Ticket),
    /// This ticket was sold, and refused later.
    Refused,
    /// Nothing is left here. Other shards may have something.
    Empty,
    /// It begins so much later.
    NotOpen(Duration),
    /// It is over.
    Closed,
    /// The store has no such shard: nobody knows what is left.
    Unknown,
}

impl Decision for Sell {
    type State = Shard;
    type Reply = Sold;
    const NAME: &'static str = "sell";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], now: Timestamp) -> Result<Sold, WrongType> {
        let shard = only(cells)?;
        let Some(book) = &mut shard.book else { return Ok(Sold::Unknown) };
        match shard.buyers.get(&self.buyer) {
            Some(Mark::Served(ticket)) if *ticket == self.ticket => return Ok(Sold::Sold),
            Some(Mark::Served(ticket)) => return Ok(Sold::Served(ticket.clone())),
            Some(Mark::Refused(ticket)) if *ticket == self.ticket => return Ok(Sold::Refused),
            Some(Mark::Refused(_)) | None => {}
        }
        if now < book.opens {
            return Ok(Sold::NotOpen(book.opens.since(now)));
        }
        if now >= book.closes {
            return Ok(Sold::Closed);
        }
        if book.left == 0 {
            return Ok(Sold::Empty);
        }
        book.left -= 1;
        book.sold += 1;
        shard.buyers.insert(self.buyer.clone(), Mark::Served(self.ticket.clone()));
        shard.marks_until = shard.until;
        shard.queue(self.ticket.clone(), self.buyer.clone(), now);
        Ok(Sold::Sold)
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}
