//! Workers: they take tickets out of the outboxes, and make orders of them.
//!
//! A message leaves the outbox only after its order, or its refusal and the return of its unit, are done; all of these
//! may be repeated. So a worker may die at any moment: another takes over what it had.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::books::{self, Fate, NO_STOCK};
use super::error::SaleError;
use super::known::Sale;
use super::sales::{MAX_KNOWN, Mode, Sales};
use super::shard::{Done, GaveBack, GiveBack, Message, Take};
use super::terms::KEPT_AFTER_CLOSING;

mod seen;

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

/// Writes the orders of all sales. As many as you like may run, in as many processes.
#[derive(Debug)]
pub struct Worker {
    sales: Sales,
    name: String,
    claim_after: Duration,
    seen: Arc<Seen>,
    /// Taken, and not yet done with.
    in_hand: Option<Batch>,
    looked_for_sales: Option<Instant>,
}

#[derive(Debug)]
struct Batch {
    sale: Arc<Sale>,
    shard: u8,
    messages: Vec<Message>,
}

impl Sales {
    /// A worker. `name` is for people who look at the outbox; workers may share one.
    pub fn worker(&self, name: &str) -> Worker {
        let (sales, name, seen) = (self.clone(), name.to_owned(), Arc::default());
        Worker { sales, name, claim_after: CLAIM_AFTER, seen, in_hand: None, looked_for_sales: None }
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

    /// Works until `until` is ready, and then ends when what it has in hand is done, or at once where that fails.
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

    /// Goes through all shards of all sales once. Answers how many messages it dealt with.
    async fn round(&mut self) -> Result<usize, SaleError> {
        let mut dealt_with = self.deal_with_hand().await?;
        self.look_for_sales().await?;
        for sale in self.sales.known() {
            for shard in sale.terms.all_shards() {
                let take = Take { worker: self.name.clone(), most: BATCH, idle: self.claim_after };
                let taken = self.sales.apply(&sale, shard, take).await?.reply;
                self.seen.took_over(taken.taken_over);
                if !taken.messages.is_empty() {
                    self.in_hand = Some(Batch { sale: sale.clone(), shard, messages: taken.messages });
                    dealt_with += self.deal_with_hand().await?;
                }
            }
        }
        Ok(dealt_with)
    }

    async fn look_for_sales(&mut self) -> Result<(), SaleError> {
        if self.looked_for_sales.is_some_and(|at| at.elapsed() < NEW_SALES) {
            return Ok(());
        }
        let kept = self.sales.shared.store.now().before(KEPT_AFTER_CLOSING);
        let most = MAX_KNOWN as i64;
        for terms in books::closing_after(&self.sales.shared.database, kept, most).await? {
            self.sales.know(terms)?;
        }
        self.looked_for_sales = Some(Instant::now());
        Ok(())
    }

    /// Deals with what is in hand. Where that fails it stays in hand: all of this may be done again.
    async fn deal_with_hand(&mut self) -> Result<usize, SaleError> {
        let Some(batch) = &self.in_hand else { return Ok(0) };
        let fates = self.write(batch).await?;
        for (message, fate) in batch.messages.iter().zip(&fates) {
            if let Fate::Refused(reason) = fate {
                self.give_back(batch, message, reason).await?;
            }
        }
        let ids = batch.messages.iter().map(|message| message.id.clone()).collect();
        self.sales.apply(&batch.sale, batch.shard, Done { ids }).await?;
        fates.iter().for_each(|fate| self.seen.met(fate));
        self.in_hand = None;
        Ok(fates.len())
    }

    /// All in one transaction; where the database will never take one of them, each in its own.
    async fn write(&self, batch: &Batch) -> Result<Vec<Fate>, SaleError> {
        let (database, sku) = (&self.sales.shared.database, &batch.sale.terms.sku);
        match books::write(database, sku, &batch.messages).await {
            Err(error) if error.is_permanent() => {}
            fates => return Ok(fates?),
        }
        let mut fates = Vec::with_capacity(batch.messages.len());
        for message in &batch.messages {
            let fate = match books::write(database, sku, std::slice::from_ref(message)).await {
                Err(error) if error.is_permanent() => {
                    books::refuse(database, sku, message, &error.reason()).await?
                }
                fate => fate?.remove(0),
            };
            fates.push(fate);
        }
        Ok(fates)
    }

    async fn give_back(&self, batch: &Batch, message: &Message, reason: &str) -> Result<(), SaleError> {
        let (buyer, ticket, withhold) = (message.buyer.clone(), message.ticket.clone(), reason == NO_STOCK);
        if withhold {
            tracing::error!(sku = %batch.sale.terms.sku, %ticket, "sold, and the database has no unit for it");
        }
        let give_back = GiveBack { buyer, ticket, withhold };
        if self.sales.apply(&batch.sale, batch.shard, give_back).await?.reply == GaveBack::Returned {
            self.seen.returned();
            batch.sale.something_left();
        }
        Ok(())
    }
}
