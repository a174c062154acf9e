//! What a store keeps for one shard.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use lockkeeper_core::{State, Timestamp, WrongType};

use crate::sale::names::{Buyer, Ticket, Transfer};

/// One shard. On a server, five keys: a hash, who was served, what is lent, what was moved, and the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shard {
    /// The numbers. `None`: the store has none, and nobody knows what is left.
    pub(super) book: Option<Book>,
    /// Who was served, or refused.
    pub(super) buyers: HashMap<Buyer, Mark>,
    /// What is on its way to another shard.
    pub(super) lent: BTreeMap<Transfer, Lent>,
    /// Transfers with which this shard is done, on either end.
    pub(super) moved: HashSet<Transfer>,
    /// Tickets on their way to the database, the oldest first.
    pub(super) outbox: VecDeque<Queued>,
    /// How many messages there have ever been.
    pub(super) messages: u64,
    /// When all of it goes but what is remembered of buyers.
    pub(super) until: Timestamp,
    /// When that goes.
    pub(super) marks_until: Timestamp,
}

/// The numbers of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Book {
    pub(super) opens: Timestamp,
    pub(super) closes: Timestamp,
    /// Grows when somebody rebuilds a part of the sale: transfers of an older epoch are not received any more.
    pub(super) epoch: u64,
    pub(super) left: u64,
    pub(super) sold: u64,
    pub(super) withheld: u64,
    /// Grows whenever units come or go other than by a sale: who sees it unchanged has seen nothing move.
    pub(super) moves: u64,
}

/// What is remembered of a buyer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// They have this ticket.
    Served(Ticket),
    /// Their ticket became no order; its unit went back. They may try again, with another ticket.
    Refused(Ticket),
}

/// Units on their way to another shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lent {
    /// The shard that receives them.
    pub to: u8,
    /// How many.
    pub units: u64,
    /// The lender's, when it lent them.
    pub epoch: u64,
}

/// A ticket on its way to the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The store's name for it.
    pub id: String,
    /// What was sold.
    pub ticket: Ticket,
    /// To whom.
    pub buyer: Buyer,
    /// When, by the server's clock.
    pub sold_at: Timestamp,
}

/// A message, and since when a worker has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) message: Message,
    /// In milliseconds of the server's clock.
    pub(super) taken_ms: Option<u64>,
}

impl State for Shard {
    const NOUN: &'static str = "a shard of a sale";

    /// A key is there in its last millisecond, as on a server.
    fn expire(&mut self, now: Timestamp) {
        if now.as_millis() > self.until.as_millis() {
            let (buyers, marks_until) = (std::mem::take(&mut self.buyers), self.marks_until);
            *self = Self { buyers, marks_until, ..Self::default() };
        }
        if now.as_millis() > self.marks_until.as_millis() {
            self.buyers.clear();
        }
    }

    fn is_empty(&self) -> bool {
        self.book.is_none() && self.buyers.is_empty() && self.outbox.is_empty()
    }
}

impl Shard {
    /// One message more.
    pub(super) fn queue(&mut self, ticket: Ticket, buyer: Buyer, sold_at: Timestamp) {
        self.messages += 1;
        let message = Message { id: self.messages.to_string(), ticket, buyer, sold_at };
        self.outbox.push_back(Queued { message, taken_ms: None });
    }
}

/// The shard that a decision is about.
///
/// # Errors
/// There is no key.
pub(super) fn only(cells: &mut [Shard]) -> Result<&mut Shard, WrongType> {
    cells.first_mut().ok_or(WrongType { index: 0, side: false })
}
