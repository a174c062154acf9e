//! The sales of a shop: opening them, buying, and asking what became of a click.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_core::Answer;
use lockkeeper_redis::port::Port;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::answer::{Bought, Outcome};
use super::books;
use super::error::SaleError;
use super::known::Sale;
use super::naive::Naive;
use super::names::{Buyer, Sku, Ticket};
use super::shard::{Find, Found, Mark, Sell, Shard, Sold};
use super::spread::Brought;
use super::store::SaleStore;
use super::terms::Terms;
use super::unknown::Unknown;
use crate::database::Database;

/// The limit for one decision on the store.
pub const STORE_WITHIN: Duration = Duration::from_secs(2);
/// How often one click tries its shard, each time after units were brought there or its ticket had been refused.
const MAX_ROUNDS: u32 = 32;
/// How many sales a process knows at once.
const MAX_KNOWN: usize = 1000;

/// How a sale is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One atomic step per click.
    Protected,
    /// Looks, and then acts, as one writes it at first. It oversells.
    Naive,
}

/// The sales of a shop. Cheap to clone; clones share everything. Processes share what is in store and database.
#[derive(Clone)]
pub struct Sales {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) keeper: Keeper,
    pub(super) database: Database,
    pub(super) store: SaleStore,
    pub(super) mode: Mode,
    pub(super) naive: Naive,
    known: Mutex<HashMap<Sku, Arc<Sale>>>,
    /// Names of which the database said a moment ago that nothing is sold under them.
    unknown: Unknown,
    /// A ticket was put into an outbox by this process.
    pub(super) queued: Notify,
    /// Somebody found that the store has lost a part of a sale.
    pub(super) lost: Notify,
}

impl Sales {
    /// Sales on the keeper's server, or inside this process where the keeper has none.
    pub fn new(keeper: Keeper, database: Database, mode: Mode) -> Self {
        let store = SaleStore::of(&keeper);
        Self::on(store, keeper, database, mode)
    }

    /// Sales on this store.
    pub fn on(store: SaleStore, keeper: Keeper, database: Database, mode: Mode) -> Self {
        let shared = Shared {
            keeper,
            database,
            store,
            mode,
            naive: Naive::default(),
            known: Mutex::default(),
            unknown: Unknown::default(),
            queued: Notify::new(),
            lost: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// How they are run.
    pub fn mode(&self) -> Mode {
        self.shared.mode
    }

    /// Opens a sale: writes the terms into the database, and brings the stock into the store where it is not there. To open
    /// it again on the same terms, in any process and at any time, changes nothing and repairs what the store has lost.
    ///
    /// # Errors
    /// Bad terms, other terms than before, or another process is at it; store or database failed, and the next call
    /// goes on from there.
    ///
    /// # Cancel safety
    /// As after an error.
    ///
    /// # Redis
    /// One look at each shard; where one is missing, a lock, and two scripts per shard.
    pub async fn open(&self, terms: Terms) -> Result<(), SaleError> {
        terms.check()?;
        let database = &self.shared.database;
        books::announce(database, &terms).await?;
        if books::terms_of(database, &terms.sku).await?.as_ref() != Some(&terms) {
            return Err(SaleError::OtherTerms(terms.sku));
        }
        let sale = self.know(terms)?;
        match self.shared.mode {
            Mode::Protected => self.warm(&sale).await,
            Mode::Naive => self.shared.naive.open(&self.shared.store, &sale.terms).await,
        }
    }

    /// Buys one unit for a buyer.
    ///
    /// # Errors
    /// Nobody knows what is left ([`SaleError::StockUnknown`]), or the store failed. After an unknown outcome, ask again: who got
    /// a ticket is told so.
    ///
    /// # Cancel safety
    /// The unit may be sold; see above.
    ///
    /// # Redis
    /// One script, in one round trip; more only when this buyer's shard is empty and another is not known to be.
    pub async fn buy(&self, sku: &Sku, buyer: &Buyer) -> Result<Bought, SaleError> {
        let Some(sale) = self.sale(sku).await? else { return Ok(Bought::Unknown) };
        match self.shared.mode {
            Mode::Protected => self.buy_protected(&sale, buyer).await,
            Mode::Naive => {
                let Shared { naive, store, database, .. } = &*self.shared;
                naive.buy(store, database, &sale.terms, buyer).await
            }
        }
    }

    async fn buy_protected(&self, sale: &Sale, buyer: &Buyer) -> Result<Bought, SaleError> {
        let home = sale.terms.home(buyer);
        let mut ticket = Ticket::random();
        for _ in 0..MAX_ROUNDS {
            let sell = Sell { buyer: buyer.clone(), ticket: ticket.clone(), not_after: NOW };
            let Answer { reply, at, .. } = self.apply(sale, home, sell).await?;
            match reply {
                Sold::Sold => {
                    self.shared.queued.notify_waiters();
                    return Ok(Bought::Accepted { ticket });
                }
                Sold::Served(ticket) => return Ok(Bought::AlreadyBought { ticket }),
                Sold::NotOpen(left) => return Ok(Bought::NotOpen { opens_in: left }),
                Sold::Closed => return Ok(Bought::Closed),
                // The store forgets a sale some time after it closed.
                Sold::Unknown if at >= sale.terms.closes_at => return Ok(Bought::Closed),
                Sold::Unknown => return Err(self.stock_unknown(sale)),
                Sold::Refused => ticket = Ticket::random(),
                Sold::Empty => match self.bring(sale, home).await? {
                    Brought::Something => {}
                    Brought::SoldOut => return Ok(Bought::SoldOut),
                },
            }
        }
        Err(SaleError::Crowded(sale.terms.sku.clone()))
    }

    /// What became of a buyer's click.
    ///
    /// # Errors
    /// Store or database failed; or the store has lost the sale, and the database has no order of this buyer.
    ///
    /// # Cancel safety
    /// Changes nothing.
    ///
    /// # Redis
    /// One read-only script.
    pub async fn outcome(&self, sku: &Sku, buyer: &Buyer) -> Result<Outcome, SaleError> {
        let Some(sale) = self.sale(sku).await? else { return Ok(Outcome::None) };
        let database = &self.shared.database;
        if self.shared.mode == Mode::Naive {
            let order = self.shared.naive.order_of(database, sku, buyer).await?;
            return Ok(order.map_or(Outcome::None, Outcome::Ordered));
        }
        // Whatever the store remembers of other tickets: who has an order is told so.
        if let Some(ticket) = books::order_of(database, sku, buyer).await? {
            return Ok(Outcome::Ordered(ticket));
        }
        let found = self.apply(&sale, sale.terms.home(buyer), Find { buyer: buyer.clone() }).await?;
        match found.reply {
            Found::Mark(Mark::Served(ticket)) => self.pending(&sale, buyer, ticket).await,
            Found::Mark(Mark::Refused(ticket)) => {
                let reason = books::refusal_of(database, &ticket).await?;
                Ok(reason.map_or(Outcome::None, |reason| Outcome::Refused { reason }))
            }
            Found::Unknown if found.at < sale.terms.closes_at => Err(self.stock_unknown(&sale)),
            Found::Unknown | Found::Nothing => Ok(Outcome::None),
        }
    }

    /// It may have been written since the database was asked, and then another worker cannot have refused it.
    async fn pending(&self, sale: &Sale, buyer: &Buyer, ticket: Ticket) -> Result<Outcome, SaleError> {
        let order = books::order_of(&self.shared.database, &sale.terms.sku, buyer).await?;
        Ok(order.map_or(Outcome::Pending(ticket), Outcome::Ordered))
    }

    /// The store has lost a part of this sale. Whoever keeps the sales in order is told.
    pub(super) fn stock_unknown(&self, sale: &Sale) -> SaleError {
        self.shared.lost.notify_one();
        SaleError::StockUnknown(sale.terms.sku.clone())
    }

    /// The terms of a sale, if there is one.
    ///
    /// # Errors
    /// The database failed.
    pub async fn terms(&self, sku: &Sku) -> Result<Option<Terms>, SaleError> {
        Ok(self.sale(sku).await?.map(|sale| sale.terms.clone()))
    }

    /// The sale of this name: as this process knows it, or else as the database does.
    pub(super) async fn sale(&self, sku: &Sku) -> Result<Option<Arc<Sale>>, SaleError> {
        if let Some(sale) = self.shared.known.lock().get(sku) {
            return Ok(Some(sale.clone()));
        }
        if self.shared.unknown.has(sku) {
            return Ok(None);
        }
        let Some(terms) = books::terms_of(&self.shared.database, sku).await? else {
            self.shared.unknown.note(sku);
            return Ok(None);
        };
        self.know(terms).map(Some)
    }

    /// Every sale that this process knows, and that the store still keeps.
    pub(super) fn kept(&self) -> Vec<Arc<Sale>> {
        let known: Vec<_> = self.shared.known.lock().values().cloned().collect();
        known.into_iter().filter(|sale| !self.is_forgotten(sale)).collect()
    }

    /// Knows a sale from now on. Terms never change, so that this need not be asked again.
    pub(super) fn know(&self, terms: Terms) -> Result<Arc<Sale>, SaleError> {
        let mut known = self.shared.known.lock();
        if let Some(sale) = known.get(&terms.sku) {
            return Ok(sale.clone());
        }
        if known.len() >= MAX_KNOWN {
            let now = self.shared.store.now();
            known.retain(|_, sale| now < sale.terms.until());
        }
        if known.len() >= MAX_KNOWN
            && let Some(any) = known.keys().next().cloned()
        {
            known.remove(&any);
        }
        let sale = Arc::new(Sale::new(terms)?);
        self.shared.unknown.forget(&sale.terms.sku);
        known.insert(sale.terms.sku.clone(), sale.clone());
        Ok(sale)
    }

    /// Applies a decision to a shard.
    pub(super) async fn apply<D: Port<State = Shard>>(
        &self,
        sale: &Sale,
        shard: u8,
        decision: D,
    ) -> Result<Answer<D::Reply>, SaleError> {
        Ok(self.shared.store.apply(sale.at(shard), decision, STORE_WITHIN).await?)
    }
}

/// The store stamps it when it sends.
pub(super) const NOW: lockkeeper_core::Timestamp = lockkeeper_core::Timestamp::MAX;

impl std::fmt::Debug for Sales {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sales({:?} on {:?})", self.shared.mode, self.shared.keeper)
    }
}
