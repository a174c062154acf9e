//! What can go wrong in a sale, apart from the answers to buyers.

use lockkeeper_core::{Error, ErrorKind};

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
    #[error("stock unknown: the store has no stock of {0}; reconcile it")]
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
            Self::StockUnknown(_) | Self::Crowded(_) | Self::Busy(..) => true,
            Self::OtherTerms(_) | Self::NoSale(_) => false,
        }
    }

    /// The caller's argument is wrong.
    pub fn is_bad_argument(&self) -> bool {
        match self {
            Self::Store(error) => error.kind() == ErrorKind::BadArgument,
            Self::OtherTerms(_) | Self::NoSale(_) => true,
            _ => false,
        }
    }
}

impl From<sqlx::Error> for SaleError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.into())
    }
}
