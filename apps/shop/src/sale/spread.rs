//! Between shards: units go where buyers are, so that nobody is told "sold out" while another shard has some.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::error::SaleError;
use super::known::Sale;
use super::names::Transfer;
use super::sales::{NOW, Sales};
use super::shard::{Lend, Lending, Lent, Look, Looked, Receive, Received, Settle, Settled};

/// How often one caller looks at all shards, while others move units about.
const MAX_LOOKS: u32 = 32;
/// Before the next look, where this one could move nothing: somebody else is moving something, or rebuilding.
const PAUSE: Duration = Duration::from_millis(2);

/// What came of looking for units elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brought {
    /// Try again: some came.
    Something,
    /// Every shard said so, and nothing was on its way.
    SoldOut,
}

/// All shards at once. `None` for a shard that the store has not.
pub(super) type Looks = Vec<Option<Looked>>;

impl Sales {
    /// Brings units to a shard that is empty.
    pub(super) async fn bring(&self, sale: &Sale, home: u8) -> Result<Brought, SaleError> {
        let arrivals = sale.arrivals(home);
        if sale.is_sold_out() {
            return Ok(Brought::SoldOut);
        }
        let _one_at_a_time = sale.bringing.lock().await;
        for _ in 0..MAX_LOOKS {
            if sale.is_sold_out() {
                return Ok(Brought::SoldOut);
            }
            if sale.arrivals(home) != arrivals {
                return Ok(Brought::Something);
            }
            let looks = self.look_all(sale).await?;
            let Some(shards) = looks.iter().cloned().collect::<Option<Vec<Looked>>>() else {
                return Err(self.stock_unknown(sale));
            };
            if shards[usize::from(home)].left > 0 {
                return Ok(Brought::Something);
            }
            let moved = self.finish_all(sale, &looks).await? > 0 || self.borrow(sale, home, &shards).await?;
            if !moved
                && self.look_all(sale).await?.iter().zip(&looks).all(|(now, then)| is_empty_still(now, then))
            {
                sale.sold_out();
                return Ok(Brought::SoldOut);
            }
            if !moved {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Err(SaleError::Crowded(sale.terms.sku.clone()))
    }

    /// Moves half of what the richest shard has. `false`: none has anything.
    async fn borrow(&self, sale: &Sale, home: u8, shards: &[Looked]) -> Result<bool, SaleError> {
        let richest = (0u8..).zip(shards).max_by_key(|(_, shard)| shard.left);
        let Some((from, _)) = richest.filter(|(_, shard)| shard.left > 0) else { return Ok(false) };
        let transfer = Transfer::random();
        let lend = Lend { transfer: transfer.clone(), to: home, not_after: NOW };
        if let Lending::Lent(lent) = self.apply(sale, from, lend).await?.reply {
            self.finish(sale, from, &transfer, lent).await?;
        }
        Ok(true)
    }

    /// Looks at all shards, not at one moment: see [`is_empty_still`], and [`Sales::settled_looks`].
    pub(super) async fn look_all(&self, sale: &Sale) -> Result<Looks, SaleError> {
        let looks = sale.terms.all_shards().map(|shard| self.apply(sale, shard, Look));
        Ok(try_join_all(looks).await?.into_iter().map(|answer| answer.reply).collect())
    }

    /// Finishes every transfer that is noted, whoever began it. Answers how many it could.
    pub(super) async fn finish_all(&self, sale: &Sale, looks: &Looks) -> Result<u64, SaleError> {
        let mut finished = 0;
        for (from, look) in (0u8..).zip(looks) {
            for (transfer, lent) in look.iter().flat_map(|look| &look.lent) {
                finished += u64::from(self.finish(sale, from, transfer, *lent).await?);
            }
        }
        Ok(finished)
    }

    /// Lets the receiver have the units of a transfer, and strikes out the note. Both happen once, however many do this at
    /// once. `false`: the receiver is being rebuilt; the note stays.
    async fn finish(
        &self,
        sale: &Sale,
        from: u8,
        transfer: &Transfer,
        lent: Lent,
    ) -> Result<bool, SaleError> {
        let receive = Receive { transfer: transfer.clone(), units: lent.units, epoch: lent.epoch };
        let back = match self.apply(sale, lent.to, receive).await?.reply {
            Received::Received => false,
            Received::Stale => true,
            Received::Early | Received::Unknown => return Ok(false),
        };
        sale.arrived(if back { from } else { lent.to });
        let settle = Settle { transfer: transfer.clone(), back };
        Ok(self.apply(sale, from, settle).await?.reply != Settled::Unknown)
    }
}

/// The shard was empty both times, and nothing came or went in between. Where that is so for all shards, there was a
/// moment between the two looks at which all of them were empty together.
fn is_empty_still(now: &Option<Looked>, then: &Option<Looked>) -> bool {
    let is_empty = |look: &Looked| look.left == 0 && look.lent.is_empty();
    match (now, then) {
        (Some(now), Some(then)) => is_empty(now) && is_empty(then) && now.moves == then.moves,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_empty_only_if_nothing_is_left_lent_or_moved() {
        let empty = Some(Looked { moves: 3, ..Looked::default() });
        let moved = Some(Looked { moves: 4, ..Looked::default() });
        let left = Some(Looked { moves: 3, left: 1, ..Looked::default() });
        let lent = Lent { to: 1, units: 1, epoch: 1 };
        let lent = Some(Looked { moves: 3, lent: vec![(Transfer::random(), lent)], ..Looked::default() });
        assert!(is_empty_still(&empty, &empty));
        for other in [&moved, &left, &lent, &None] {
            assert!(!is_empty_still(&empty, other) && !is_empty_still(other, &empty), "{other:?}");
        }
    }
}
