//! What can go wrong in a sale, apart from the answers to buyers.

use lockkeeper_core::Error;

use super::names::Sku;
use crate::database::DatabaseError;

/// No answer to a buyer, or to who keeps the shop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaleError {
    /// The store refused, could not be reached, or did not answer. After an unknown outcome the same buyer asks again:
    /// whoever got a ticket is told so.
    #[error(transparent)]
    Store(#[from] Error),
    /// The database refused or could not be reached.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The store has lost this sale: nobody knows what is left. Neither "sold out" nor "sold".
    #[error("stock unknown: the store has no stock of {0}; it is being rebuilt from the database")]
    StockUnknown(Sku),
    /// A sale of this name was opened before, on other terms.
    #[error("{0} was opened on other terms, and terms never change")]
    OtherTerms(Sku),
    /// Stock moved between shards faster than this buyer could follow. Nothing was taken; try again.
    #[error("{0} is too busy; try again")]
    Crowded(Sku),
    /// Somebody else opens or reconciles this sale.
    #[error("{0} is being reconciled by {1}")]
    Busy(Sku, String),
    /// The store has lost stock of this sale, and so many tickets that were sold from it are on their way to the database.
    /// What is left is known when they are written.
    #[error("{1} tickets of {0} are on their way to the database; what is left is counted after them")]
    TicketsUnderWay(Sku, u64),
    /// There is no such sale.
    #[error("there is no sale of {0}")]
    NoSale(Sku),
}

impl SaleError {
    /// Trying again later, unchanged, may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::Database(error) => !error.is_permanent(),
            Self::StockUnknown(_) | Self::Crowded(_) | Self::Busy(..) | Self::TicketsUnderWay(..) => true,
            Self::OtherTerms(_) | Self::NoSale(_) => false,
        }
    }
}

impl From<sqlx::Error> for SaleError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.into())
    }
}
