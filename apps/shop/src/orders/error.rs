//! Why there is no paid order.

use crate::database::DatabaseError;

/// Why an order was not paid, or could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// Somebody works on this order right now.
    #[error("this order is being worked on")]
    Busy,
    /// The number belongs to somebody else's order. Says nothing about it.
    #[error("this order number is taken")]
    Taken,
    /// The same number, by the same buyer, for something else.
    #[error("an order with this number and other contents exists")]
    Differs,
    /// The order was declined, or not paid in time. It stays so.
    #[error("this order was refused")]
    Refused,
    /// The provider declines the charge.
    #[error("the payment was declined: {0}")]
    Declined(String),
    /// Somebody with a later fence wrote first: nothing was changed.
    #[error("the lock was lost, and a later holder wrote first")]
    Stale,
    /// The provider gave no answer: it may have charged. The same order asked again settles it.
    #[error("whether the payment went through is not known")]
    PaymentUnknown,
    /// A row of the database is not one of ours.
    #[error("the order's row is damaged")]
    Damaged,
    /// The lock could not be taken.
    #[error(transparent)]
    Lock(#[from] lockkeeper::Error),
    /// The database is away.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl From<sqlx::Error> for OrderError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.into())
    }
}
