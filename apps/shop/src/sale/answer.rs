//! What a sale answers: to a buyer, and to who keeps the shop.

use std::time::Duration;

use super::names::Ticket;

/// The answer to a buyer who wants one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bought {
    /// A unit is set aside, and its order is on its way into the database.
    Accepted {
        /// To ask for the order by.
        ticket: Ticket,
    },
    /// This buyer has a unit already. One per buyer.
    AlreadyBought {
        /// Theirs.
        ticket: Ticket,
    },
    /// Every shard said that nothing is left, and nothing was on its way between them.
    SoldOut,
    /// The sale begins later.
    NotOpen {
        /// When, from now by the server's clock.
        opens_in: Duration,
    },
    /// The sale is over.
    Closed,
    /// There is no such sale.
    Unknown,
}

/// How the stock of a sale stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// Units at the beginning.
    pub initial: u64,
    /// Units that can be bought. Negative in the naive mode alone.
    pub remaining: i64,
    /// Units for which a buyer holds a ticket.
    pub sold: u64,
    /// Orders in the database.
    pub written: u64,
    /// Tickets on their way to the database.
    pub queued: u64,
    /// Tickets that became no order.
    pub refused: u64,
    /// Refused tickets whose unit stays out of the sale, because the database has none for it.
    pub withheld: u64,
    /// Units on their way from one shard to another.
    pub in_transit: u64,
}

/// What became of a buyer's click.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A ticket, which is not yet in the database.
    Pending(Ticket),
    /// The order is in the database.
    Ordered(Ticket),
    /// It became no order. The buyer may try again, and then this is forgotten.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// Nothing is known of this buyer.
    None,
}

/// What a reconciliation found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Transfers between shards that somebody had left half done.
    pub finished_transfers: u64,
    /// Shards that the store had lost, rebuilt from the terms and the orders.
    pub rebuilt_shards: u64,
    /// Buyers who have a unit and whom the store did not remember any more; at least so many. Those with an order are
    /// remembered again.
    pub forgotten_buyers: u64,
    /// Units that are neither remaining nor in transit nor sold (below zero: there are more than there were).
    pub missing_units: i64,
    /// Tickets that are neither queued, nor orders, nor withheld (below zero: orders of which the store knows nothing).
    pub missing_orders: i64,
    /// The stock after that.
    pub stock: Stock,
}

impl Reconciled {
    /// Store and database agree.
    pub fn is_clean(&self) -> bool {
        self.missing_units == 0 && self.missing_orders == 0
    }
}
