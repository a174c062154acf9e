//! The flash sale: stock that never goes negative, one unit per buyer, and an order for every ticket.
//!
//! A click is **one atomic step** on the store: the unit, the buyer's mark, and the message that becomes an order
//! ([`shard::Sell`]). Workers write the orders; the database's own stock and its unique indexes are the last line. What
//! the store loses is rebuilt from the terms and the orders.

mod answer;
mod books;
mod count;
mod error;
mod known;
mod naive;
mod names;
mod ports;
mod sales;
pub mod shard;
mod spread;
mod store;
mod terms;
mod unknown;
mod upkeep;
mod warm;
mod worker;

pub use answer::{Bought, Outcome, Reconciled, Stock};
pub use error::SaleError;
pub use known::{PREFIX, SOLD_OUT_FOR};
pub use names::{Buyer, MAX_NAME_BYTES, Sku, Ticket, Transfer};
pub use sales::{Mode, STORE_WITHIN, Sales};
pub use store::SaleStore;
pub use terms::{KEPT_AFTER_CLOSING, MAX_LENGTH, MAX_SHARDS, MAX_UNITS, Terms};
pub use unknown::UNKNOWN_FOR;
pub use worker::{CLAIM_AFTER, Seen, Tally, Worker};
