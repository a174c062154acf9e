//! Workers: they take tickets out of the outboxes, and make orders of them.
//!
//! A message leaves the outbox only after its order, or its refusal and the return of its unit, are done; all of these
//! may be repeated. So a worker may die at any moment: another takes over what it had.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::books::{self, Fate, NO_STOCK, Written};
use super::error::SaleError;
use super::known::Sale;
use super::names::Ticket;
use super::sales::{Mode, Sales};
use super::shard::{Done, GaveBack, GiveBack, Message, Take};
use super::terms::KEPT_AFTER_CLOSING;

mod seen;
#[cfg(test)]
mod tests;

pub use seen::{Seen, Tally};

/// After how long others may have the messages that a worker took and did not finish.
pub const CLAIM_AFTER: Duration = Duration::from_secs(5);
/// Messages that are taken, and written in one transaction, at once.
const BATCH: usize = 64;
/// How long a worker that found nothing waits for a ticket of its own process, or looks again. Doubles while nothing comes.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How long it waits after store or database failed. Doubles while they do.
const SHORTEST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(2);
/// How often it looks for sales that other processes opened.
const NEW_SALES: Duration = Duration::from_secs(1);
/// Sales that are read at once.
const PAGE: i64 = 500;

/// Writes the orders of all sales. As many as you like may run, in as many processes.
#[derive(Debug)]
pub struct Worker {
    sales: Sales,
    name: String,
    claim_after: Duration,
    seen: Arc<Seen>,
    /// Those that the store still keeps.
    open: Vec<Arc<Sale>>,
    looked_for_sales: Option<Instant>,
}

/// Messages that were taken.
#[derive(Debug)]
struct Batch {
    sale: Arc<Sale>,
    shard: u8,
    /// The sale's from before they were taken.
    fence: u64,
    messages: Vec<Message>,
}

impl Sales {
    /// A worker. `name` is for people who look at the outbox; workers may share one.
    pub fn worker(&self, name: &str) -> Worker {
        let (sales, name, seen) = (self.clone(), name.to_owned(), Arc::default());
        Worker { sales, name, claim_after: CLAIM_AFTER, seen, open: Vec::new(), looked_for_sales: None }
    }
}

impl Worker {
    /// Others may have what this worker took and did not finish after so long; [`CLAIM_AFTER`] without this.
    #[must_use]
    pub fn claim_after(mut self, idle: Duration) -> Self {
        self.claim_after = idle;
        self
    }

    /// What it counts.
    pub fn seen(&self) -> Arc<Seen> {
        self.seen.clone()
    }

    /// Works until `until` is ready, and then ends with the round that it is in.
    ///
    /// # Cancel safety
    /// What it has in hand is taken over by another worker, after a while.
    ///
    /// # Redis
    /// One script per shard and round; two per batch.
    pub async fn run(mut self, until: impl Future<Output = ()>) {
        let mut until = pin!(until);
        if self.sales.mode() == Mode::Naive {
            return until.await;
        }
        let (mut pause, mut retry) = (SHORTEST_PAUSE, SHORTEST_RETRY);
        loop {
            let sales = self.sales.clone();
            // Registered before looking, so that no ticket falls between.
            let mut queued = pin!(sales.shared.queued.notified());
            queued.as_mut().enable();
            let mut failed = false;
            let rest = match self.round().await {
                Ok(0) => {
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    pause
                }
                Ok(_) => {
                    (pause, retry) = (SHORTEST_PAUSE, SHORTEST_RETRY);
                    Duration::ZERO
                }
                Err(error) => {
                    self.seen.retried();
                    tracing::warn!(worker = self.name, %error, "orders have to wait");
                    retry = (retry * 2).min(LONGEST_RETRY);
                    failed = true;
                    retry
                }
            };
            tokio::select! {
                biased;
                () = &mut until => return,
                () = tokio::time::sleep(rest) => {}
                () = &mut queued, if !failed => pause = SHORTEST_PAUSE,
            }
        }
    }

    /// Goes through all shards of all sales once, though some of them fail. Answers how many messages it dealt with.
    ///
    /// # Errors
    /// Of the first one that failed.
    async fn round(&mut self) -> Result<usize, SaleError> {
        self.look_for_sales().await?;
        let (mut dealt_with, mut failed) = (0, None);
        for sale in self.open.iter().filter(|sale| !self.sales.is_forgotten(sale)) {
            for shard in sale.terms.all_shards() {
                match self.serve(sale, shard).await {
                    Ok(many) => dealt_with += many,
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
        failed.map_or(Ok(dealt_with), Err)
    }

    async fn look_for_sales(&mut self) -> Result<(), SaleError> {
        if self.looked_for_sales.is_some_and(|at| at.elapsed() < NEW_SALES) {
            return Ok(());
        }
        let kept = self.sales.shared.store.now().before(KEPT_AFTER_CLOSING);
        let (mut open, mut after) = (Vec::new(), Some(String::new()));
        while let Some(name) = after {
            let page = books::closing_after(&self.sales.shared.database, kept, &name, PAGE).await?;
            for (terms, fence) in page.sales {
                let sale = self.sales.know(terms)?;
                sale.rebuilt_under(fence);
                open.push(sale);
            }
            after = page.next;
        }
        (self.open, self.looked_for_sales) = (open, Some(Instant::now()));
        Ok(())
    }

    /// Deals with some messages of a shard. Where that fails, they are taken again after a while, by whomever.
    async fn serve(&self, sale: &Arc<Sale>, shard: u8) -> Result<usize, SaleError> {
        match self.take(sale, shard).await? {
            Some(batch) => self.deal_with(&batch).await,
            None => Ok(0),
        }
    }

    async fn take(&self, sale: &Arc<Sale>, shard: u8) -> Result<Option<Batch>, SaleError> {
        let fence = sale.fence();
        let take = Take { worker: self.name.clone(), most: BATCH, idle: self.claim_after };
        let taken = self.sales.apply(sale, shard, take).await?.reply;
        self.seen.took_over(taken.taken_over);
        let messages = taken.messages;
        Ok((!messages.is_empty()).then(|| Batch { sale: sale.clone(), shard, fence, messages }))
    }

    /// All of this may be done again.
    async fn deal_with(&self, batch: &Batch) -> Result<usize, SaleError> {
        let fates = match self.write(batch).await? {
            Written::All(fates) => fates,
            Written::Stale(fence) => {
                // What the store still has of them is taken again under this fence.
                batch.sale.rebuilt_under(fence);
                self.seen.came_too_late(batch.messages.len());
                return Ok(0);
            }
        };
        for (message, fate) in batch.messages.iter().zip(&fates) {
            if let Fate::Refused { reason, order } = fate {
                self.give_back(batch, message, reason, order.as_ref()).await?;
            }
        }
        let ids = batch.messages.iter().map(|message| message.id.clone()).collect();
        self.sales.apply(&batch.sale, batch.shard, Done { ids }).await?;
        fates.iter().for_each(|fate| self.seen.met(fate));
        Ok(fates.len())
    }

    /// All in one transaction; where the database will never take one of them, each in its own.
    async fn write(&self, batch: &Batch) -> Result<Written, SaleError> {
        let (database, sku, fence) = (&self.sales.shared.database, &batch.sale.terms.sku, batch.fence);
        match books::write(database, sku, &batch.messages, fence).await {
            Err(error) if error.is_permanent() => {}
            written => return Ok(written?),
        }
        let mut fates = Vec::with_capacity(batch.messages.len());
        for message in &batch.messages {
            let written = match books::write(database, sku, std::slice::from_ref(message), fence).await {
                Err(error) if error.is_permanent() => {
                    books::refuse(database, sku, message, &error.reason(), fence).await?
                }
                written => written?,
            };
            match written {
                Written::All(fate) => fates.extend(fate),
                stale @ Written::Stale(_) => return Ok(stale),
            }
        }
        Ok(Written::All(fates))
    }

    async fn give_back(
        &self,
        batch: &Batch,
        message: &Message,
        reason: &str,
        order: Option<&Ticket>,
    ) -> Result<(), SaleError> {
        let (buyer, ticket, withhold) = (message.buyer.clone(), message.ticket.clone(), reason == NO_STOCK);
        if withhold {
            tracing::error!(sku = %batch.sale.terms.sku, %ticket, "sold, and the database has no unit for it");
        }
        let give_back = GiveBack { buyer, ticket, withhold, order: order.cloned() };
        if self.sales.apply(&batch.sale, batch.shard, give_back).await?.reply == GaveBack::Returned {
            self.seen.returned();
            batch.sale.something_left();
        }
        Ok(())
    }
}
