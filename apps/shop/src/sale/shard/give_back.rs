//! Give the unit of a refused ticket back.

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Mark, Shard, only};
use crate::sale::names::{Buyer, Ticket};

/// Returns the unit of a ticket that became no order, exactly once however often this is delivered: only while the buyer
/// is marked as served by this very ticket. The mark stays as a refusal, which the buyer's next ticket replaces; or it
/// becomes that of the order which the buyer has, and of which the store did not know.
#[derive(Clone, Debug)]
pub struct GiveBack {
    /// Whose it was.
    pub buyer: Buyer,
    /// Which became no order.
    pub ticket: Ticket,
    /// The database has no unit for it: it stays out of the sale, and counts as sold.
    pub withhold: bool,
    /// The ticket that is this buyer's order.
    pub order: Option<Ticket>,
}

/// The answer to a [`GiveBack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveBack {
    /// Now.
    Returned,
    /// Before, or it was never sold here.
    Nothing,
    /// The store has lost the shard's numbers; the mark is changed where it is there. When they are rebuilt, what is no
    /// order is left.
    Unknown,
}

impl Decision for GiveBack {
    type State = Shard;
    type Reply = GaveBack;
    const NAME: &'static str = "give_back";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], _now: Timestamp) -> Result<GaveBack, WrongType> {
        let shard = only(cells)?;
        let is_known = shard.book.is_some();
        match shard.buyers.get_mut(&self.buyer) {
            Some(mark) if *mark == Mark::Served(self.ticket.clone()) => {
                let refused = || Mark::Refused(self.ticket.clone());
                *mark = self.order.clone().map_or_else(refused, Mark::Served);
            }
            _ if is_known => return Ok(GaveBack::Nothing),
            _ => return Ok(GaveBack::Unknown),
        }
        let Some(book) = &mut shard.book else { return Ok(GaveBack::Unknown) };
        if self.withhold {
            book.withheld += 1;
        } else {
            book.left += 1;
            book.sold = book.sold.saturating_sub(1);
            book.moves += 1;
        }
        Ok(GaveBack::Returned)
    }
}
