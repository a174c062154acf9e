//! Bringing the stock of a sale into the store, and comparing it with the database: under a lock, and fenced.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use lockkeeper::{Acquired, LockGuard};
use lockkeeper_core::{Answer, Error, ErrorKind, Timestamp};
use lockkeeper_redis::port::Port;

use super::answer::Reconciled;
use super::books;
use super::count::{self, Sum};
use super::error::SaleError;
use super::known::Sale;
use super::names::{Buyer, Sku, Ticket};
use super::sales::{Mode, NOW, STORE_WITHIN, Sales};
use super::shard::{Looked, Open, Opened, Remember, Shard, Waiting};
use super::spread::Looks;
use super::terms::part;

/// The lease of who opens or reconciles a sale; renewed as long as that takes.
const LEASE: Duration = Duration::from_secs(10);
/// How long the next one waits.
const WAIT: Duration = Duration::from_secs(15);
/// Orders that are read, and marks that are written, at once.
const PAGE: i64 = 500;

impl Sales {
    /// Makes the shards that the store has not.
    pub(super) async fn warm(&self, sale: &Sale) -> Result<(), SaleError> {
        if self.look_all(sale).await?.iter().all(Option::is_some) {
            return Ok(());
        }
        let guard = self.guard(sale).await?;
        let rebuilt = self.rebuild_lost(sale, &guard).await;
        // It is given back in the background where this fails.
        let _ = guard.release().await;
        rebuilt.map(|_| ())
    }

    /// Puts a sale in order: finishes transfers that somebody left half done, rebuilds what the store has lost, and counts
    /// store and database against each other. Sales and workers may go on meanwhile.
    ///
    /// # Errors
    /// There is no such sale, another process is at it, tickets of a lost shard are not written yet, or store or database
    /// failed; the next call goes on from there.
    ///
    /// # Cancel safety
    /// As after an error.
    ///
    /// # Redis
    /// A lock, some read-only scripts per shard, two scripts per transfer; where something is missing, more.
    pub async fn reconcile(&self, sku: &Sku) -> Result<Reconciled, SaleError> {
        let Some(sale) = self.sale(sku).await? else { return Err(SaleError::NoSale(sku.clone())) };
        if self.shared.mode == Mode::Naive {
            return Ok(Reconciled { stock: self.stock(sku).await?, ..Reconciled::default() });
        }
        let guard = self.guard(&sale).await?;
        let reconciled = self.reconcile_held(&sale, &guard).await;
        let _ = guard.release().await;
        reconciled
    }

    async fn reconcile_held(&self, sale: &Sale, guard: &LockGuard) -> Result<Reconciled, SaleError> {
        if self.is_forgotten(sale) {
            return Ok(Reconciled { stock: self.stock_of_orders(sale).await?, ..Reconciled::default() });
        }
        let looks = self.look_all(sale).await?;
        let finished_transfers = self.finish_all(sale, &looks).await?;
        let rebuilt_shards = self.rebuild_lost(sale, guard).await?;
        let forgotten_buyers = self.remember_forgotten(sale, guard).await?;
        let counted = self.compare(sale).await?;
        Ok(Reconciled { finished_transfers, rebuilt_shards, forgotten_buyers, ..counted })
    }

    /// Marks those who have an order where the store has lost marks alone. Answers how many were missing, at least.
    async fn remember_forgotten(&self, sale: &Sale, guard: &LockGuard) -> Result<u64, SaleError> {
        let looks = self.look_all(sale).await?;
        let unmarked = Sum::of(&looks).unmarked;
        if unmarked > 0 {
            let has_lost = |look: &Option<Looked>| look.as_ref().is_some_and(|look| look.unmarked() > 0);
            let shards: Vec<u8> =
                sale.terms.all_shards().filter(|shard| has_lost(&looks[usize::from(*shard)])).collect();
            tracing::error!(sku = %sale.terms.sku, unmarked, "the store has forgotten who was served");
            self.remember_all(sale, &shards, guard).await?;
        }
        Ok(unmarked)
    }

    /// Sales and workers may go on meanwhile: what they can have done between two counts is no difference.
    async fn compare(&self, sale: &Sale) -> Result<Reconciled, SaleError> {
        let (database, sku) = (&self.shared.database, &sale.terms.sku);
        let (before, _) = books::count(database, sku).await?;
        let sum = Sum::of(&self.settled_looks(sale).await?);
        let (after, refused) = books::count(database, sku).await?;
        let missing_units = difference(u64::from(sale.terms.initial), sum.units());
        let missing_orders = missing_orders(&sum, before, after);
        let stock = count::stock(sale, &sum, after, refused);
        let counted = Reconciled { missing_units, missing_orders, stock, ..Reconciled::default() };
        if !counted.is_clean() {
            tracing::error!(%sku, missing_units, missing_orders, "store and database disagree");
        }
        Ok(counted)
    }

    async fn guard(&self, sale: &Sale) -> Result<LockGuard, SaleError> {
        let sku = &sale.terms.sku;
        let lock = self.shared.keeper.lock(format!("sale:{sku}"))?.lease(LEASE).wait(WAIT);
        match lock.acquire().await? {
            Acquired::Held(guard) => Ok(guard),
            Acquired::Busy(busy) => Err(SaleError::Busy(sku.clone(), busy.holder.to_string())),
        }
    }

    /// Rebuilds what is missing, unless nothing is (any more: somebody else may have had the lock before).
    async fn rebuild_lost(&self, sale: &Sale, guard: &LockGuard) -> Result<u64, SaleError> {
        let looks = self.look_all(sale).await?;
        if looks.iter().all(Option::is_some) {
            return Ok(0);
        }
        // What was sold and is not written yet would be counted as left. Nothing more is sold there meanwhile.
        self.check_outboxes(sale, &missing(sale, &looks)).await?;
        // What was received before its shard was lost is settled, or it would be counted with its lender.
        self.finish_all(sale, &looks).await?;
        self.rebuild(sale, guard).await
    }

    /// Nothing waits in the outboxes of these shards.
    async fn check_outboxes(&self, sale: &Sale, shards: &[u8]) -> Result<(), SaleError> {
        let waiting = shards.iter().map(|shard| self.apply(sale, *shard, Waiting));
        match try_join_all(waiting).await?.iter().map(|answer| answer.reply).sum() {
            0 => Ok(()),
            waiting => Err(SaleError::TicketsUnderWay(sale.terms.sku.clone(), waiting)),
        }
    }

    /// Rebuilds the shards that are missing: who was served, from the orders; what is left, as that for which no other shard
    /// and no order accounts. Answers how many were missing.
    async fn rebuild(&self, sale: &Sale, guard: &LockGuard) -> Result<u64, SaleError> {
        let fence = guard.fence()?.get();
        if !books::raise_fence(&self.shared.database, &sale.terms.sku, fence).await? {
            return Err(lost("somebody took the lock over").into());
        }
        sale.rebuilt_under(fence);
        // From here on, no transfer from before is received, so that what is lent stays with its lender.
        let present = self.look_all(sale).await?;
        for shard in sale.terms.all_shards().filter(|shard| present[usize::from(*shard)].is_some()) {
            self.fenced(sale, shard, raise(sale, fence), guard).await?;
        }
        let looks = self.settled_looks(sale).await?;
        let missing = missing(sale, &looks);
        // Another one may have been lost since.
        self.check_outboxes(sale, &missing).await?;
        let sold = self.remember_all(sale, &missing, guard).await?;
        let accounted = Sum::of(&looks).units() + sold.values().sum::<u64>();
        let left = u64::from(sale.terms.initial).saturating_sub(accounted);
        let created = self.open_all(sale, &missing, left, &sold, guard).await?;
        self.finish_all(sale, &self.look_all(sale).await?).await?;
        sale.something_left();
        Ok(created)
    }

    async fn open_all(
        &self,
        sale: &Sale,
        missing: &[u8],
        left: u64,
        sold: &HashMap<u8, u64>,
        guard: &LockGuard,
    ) -> Result<u64, SaleError> {
        let (many, mut created) = (missing.len() as u64, 0);
        for (at, shard) in (0u64..).zip(missing) {
            let sold = sold.get(shard).copied().unwrap_or(0);
            let open = open(sale, guard.fence()?.get(), part(left, many, at), sold);
            let opened = self.fenced(sale, *shard, open, guard).await?.reply;
            created += u64::from(opened == Opened::Created);
        }
        Ok(created)
    }

    /// Marks everybody who has an order, where their shard is missing. Answers how many orders each of these shards has.
    async fn remember_all(
        &self,
        sale: &Sale,
        missing: &[u8],
        guard: &LockGuard,
    ) -> Result<HashMap<u8, u64>, SaleError> {
        let (mut sold, mut last) = (HashMap::new(), String::new());
        loop {
            let page = books::orders_after(&self.shared.database, &sale.terms.sku, &last, PAGE).await?;
            let Some((_, ticket)) = page.last() else { return Ok(sold) };
            last = ticket.as_str().to_owned();
            let mut homes: HashMap<u8, Vec<(Buyer, Ticket)>> = HashMap::new();
            for (buyer, ticket) in page {
                homes.entry(sale.terms.home(&buyer)).or_default().push((buyer, ticket));
            }
            for (shard, marks) in homes.into_iter().filter(|(shard, _)| missing.contains(shard)) {
                *sold.entry(shard).or_default() += marks.len() as u64;
                let remember = Remember { until: sale.terms.until(), marks, not_after: NOW };
                self.fenced(sale, shard, remember, guard).await?;
            }
        }
    }

    /// Applies a decision that only the holder of the lock may. It carries a "not after" that lies before the end of the
    /// lease, so that it does nothing once somebody else may hold the lock.
    async fn fenced<D: Port<State = Shard>>(
        &self,
        sale: &Sale,
        shard: u8,
        decision: D,
        guard: &LockGuard,
    ) -> Result<Answer<D::Reply>, SaleError> {
        let within = STORE_WITHIN.min(guard.remaining());
        if within.is_zero() {
            return Err(lost("the lease ended before the sale was rebuilt").into());
        }
        Ok(self.shared.store.apply(sale.at(shard), decision, within).await?)
    }
}

/// The shards that a look did not find.
fn missing(sale: &Sale, looks: &Looks) -> Vec<u8> {
    sale.terms.all_shards().filter(|shard| looks[usize::from(*shard)].is_none()).collect()
}

/// Raises the epoch of a shard that is there, and makes none: it would be over at once.
fn raise(sale: &Sale, epoch: u64) -> Open {
    Open { until: Timestamp::from_micros(0), ..open(sale, epoch, 0, 0) }
}

fn open(sale: &Sale, epoch: u64, left: u64, sold: u64) -> Open {
    let (opens, closes, until) = (sale.terms.opens_at, sale.terms.closes_at, sale.terms.until());
    Open { opens, closes, until, epoch, left, sold, not_after: NOW }
}

fn lost(detail: &str) -> Error {
    Error::new(ErrorKind::Lost, "reconcile", detail)
}

/// A worker removes a message after its order is written: so no more can have left the outboxes than are written after
/// looking, and no more can have been written before than were sold.
fn missing_orders(sum: &Sum, before: u64, after: u64) -> i64 {
    let sold = sum.sold.saturating_sub(sum.withheld);
    match sold.saturating_sub(sum.queued) {
        finished if finished > after => difference(finished, after),
        _ => difference(sold, before).min(0),
    }
}

fn difference(should: u64, is: u64) -> i64 {
    books::number(should) - books::number(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sales_and_workers_do_meanwhile_is_no_difference() {
        let sum = |sold, queued, withheld| Sum { sold, queued, withheld, ..Sum::default() };
        // Nothing goes on; written and not yet removed; written while it was looked.
        for (sum, before, after) in
            [(sum(5, 0, 0), 5, 5), (sum(5, 2, 0), 5, 5), (sum(5, 2, 0), 3, 8), (sum(6, 0, 1), 5, 5)]
        {
            assert_eq!(missing_orders(&sum, before, after), 0);
        }
        assert_eq!(missing_orders(&sum(5, 0, 0), 3, 3), 2);
        assert_eq!(missing_orders(&sum(5, 1, 0), 3, 3), 1);
        assert_eq!(missing_orders(&sum(5, 0, 0), 7, 7), -2);
    }
}
