//! Counting a sale: in the store, where units move while they are counted, and in the database.

use std::time::Duration;

use super::answer::Stock;
use super::books;
use super::error::SaleError;
use super::known::Sale;
use super::names::Sku;
use super::sales::{Mode, Sales};
use super::spread::Looks;

/// How often all shards are looked at, until two looks in a row saw nothing move.
const MAX_LOOKS: u32 = 64;
const PAUSE: Duration = Duration::from_millis(2);

/// The shards of a sale, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) left: u64,
    pub(super) sold: u64,
    pub(super) withheld: u64,
    pub(super) queued: u64,
    pub(super) lent: u64,
    /// Buyers who have a unit and are not remembered.
    pub(super) unmarked: u64,
}

impl Sum {
    pub(super) fn of(looks: &Looks) -> Self {
        looks.iter().flatten().fold(Self::default(), |sum, look| Self {
            left: sum.left + look.left,
            sold: sum.sold + look.sold,
            withheld: sum.withheld + look.withheld,
            queued: sum.queued + look.queued,
            unmarked: sum.unmarked + look.unmarked(),
            lent: sum.lent + look.lent.iter().map(|(_, lent)| lent.units).sum::<u64>(),
        })
    }

    /// All units that these shards account for.
    pub(super) fn units(&self) -> u64 {
        self.left + self.sold + self.lent
    }
}

impl Sales {
    /// How the stock stands.
    ///
    /// # Errors
    /// There is no such sale; the store has lost it; store or database failed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    ///
    /// # Redis
    /// Two read-only scripts per shard, more while units move between them.
    pub async fn stock(&self, sku: &Sku) -> Result<Stock, SaleError> {
        let Some(sale) = self.sale(sku).await? else { return Err(SaleError::NoSale(sku.clone())) };
        if self.shared.mode == Mode::Naive {
            let (store, database) = (&self.shared.store, &self.shared.database);
            return self.shared.naive.stock(store, database, &sale.terms).await;
        }
        if self.is_forgotten(&sale) {
            return self.stock_of_orders(&sale).await;
        }
        let looks = self.settled_looks(&sale).await?;
        if looks.iter().any(Option::is_none) {
            return Err(self.stock_unknown(&sale));
        }
        let (written, refused) = books::count(&self.shared.database, sku).await?;
        Ok(stock(&sale, &Sum::of(&looks), written, refused))
    }

    /// Orders of this sale whose buyer has another one. None but in the naive mode: the protected sale's table cannot hold
    /// them.
    ///
    /// # Errors
    /// The database failed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    ///
    /// # Redis
    /// None.
    pub async fn duplicates(&self, sku: &Sku) -> Result<u64, SaleError> {
        let is_naive = self.shared.mode == Mode::Naive;
        Ok(books::duplicates(&self.shared.database, if is_naive { "naive_tickets" } else { "tickets" }, sku)
            .await?)
    }

    /// The store does not keep the sale any more.
    pub(super) fn is_forgotten(&self, sale: &Sale) -> bool {
        self.shared.store.now() >= sale.terms.until()
    }

    /// All that is known of a sale that the store has forgotten.
    pub(super) async fn stock_of_orders(&self, sale: &Sale) -> Result<Stock, SaleError> {
        let (written, refused) = books::count(&self.shared.database, &sale.terms.sku).await?;
        let left = u64::from(sale.terms.initial).saturating_sub(written);
        Ok(stock(sale, &Sum { left, sold: written, ..Sum::default() }, written, refused))
    }

    /// Looks at all shards until nothing moved between them from one look to the next, so that no unit is counted twice or
    /// not at all. Sales may go on: those change no sum of left and sold.
    ///
    /// # Errors
    /// Units never stopped moving, or the store failed.
    pub(super) async fn settled_looks(&self, sale: &Sale) -> Result<Looks, SaleError> {
        let moves = |looks: &Looks| -> Vec<Option<u64>> {
            looks.iter().map(|look| look.as_ref().map(|look| look.moves)).collect()
        };
        let mut looks = self.look_all(sale).await?;
        for _ in 0..MAX_LOOKS {
            let again = self.look_all(sale).await?;
            if moves(&again) == moves(&looks) {
                // The first of the two: each of its shards was still as it says, but for sales, when the last was looked at.
                return Ok(looks);
            }
            looks = again;
            tokio::time::sleep(PAUSE).await;
        }
        Err(SaleError::Crowded(sale.terms.sku.clone()))
    }
}

pub(super) fn stock(sale: &Sale, sum: &Sum, written: u64, refused: u64) -> Stock {
    Stock {
        initial: u64::from(sale.terms.initial),
        remaining: i64::try_from(sum.left).unwrap_or(i64::MAX),
        sold: sum.sold,
        written,
        queued: sum.queued,
        refused,
        withheld: sum.withheld,
        in_transit: sum.lent,
    }
}
