//! One shard of a sale: what a store keeps for it, and one decision for each thing that can happen to it.
//!
//! At all times, over all shards of a sale: **left + sold + lent = the units of the beginning.** Every decision moves units
//! between these in one step, so that a process that dies between two of them loses none. `lent` are units that one shard
//! has given away and another may not have received yet: whoever sees such a note may finish it.

mod done;
mod find;
mod give_back;
mod lend;
mod look;
mod open;
mod receive;
mod remember;
mod sell;
mod settle;
mod state;
mod take;
mod waiting;

#[cfg(test)]
mod tests;

pub use done::Done;
pub use find::{Find, Found};
pub use give_back::{GaveBack, GiveBack};
pub use lend::{Lend, Lending};
pub use look::{Look, Looked};
pub use open::{Open, Opened};
pub use receive::{Receive, Received};
pub use remember::Remember;
pub use sell::{Sell, Sold};
pub use settle::{Settle, Settled};
pub use state::{Lent, Mark, Message, Shard};
pub use take::{Take, Taken};
pub use waiting::Waiting;
