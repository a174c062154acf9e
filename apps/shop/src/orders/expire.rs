//! Orders that are not paid in time.

use std::time::Duration;

use super::error::OrderError;
use super::names::OrderNo;
use super::order::Status;
use super::place::{Orders, now_us, release};
use super::table;

/// The most orders that one round ends.
pub const MAX_DUE: u16 = 256;

impl Orders {
    /// Refuses an order that is not paid, and gives its charge back if there is one. True: it is refused, now or before.
    ///
    /// # Errors
    /// See [`OrderError`]. With [`OrderError::PaymentUnknown`], the order is refused and its money is not settled yet;
    /// ask again.
    ///
    /// # Cancel safety
    /// Ask again: what was begun is ended.
    ///
    /// # Redis
    /// As [`lockkeeper::Lock::acquire`], and a release.
    pub async fn expire(&self, order_no: &OrderNo) -> Result<bool, OrderError> {
        let guard = self.lock(order_no).await?;
        let ended = match table::find(&self.database, order_no).await? {
            Some(order) if order.status == Status::Placed => self.refuse(order_no, guard.fence()).await,
            Some(order) if order.status == Status::Refused => self.void(order_no).await.map(|()| true),
            _ => Ok(false),
        };
        release(guard).await;
        ended
    }

    /// [`expire`](Self::expire) for orders older than `age` that are not paid, and for refused ones whose money is not settled;
    /// at most [`MAX_DUE`] of them. How many were ended; those that somebody works on, or that fail, are left for the next
    /// round.
    ///
    /// # Errors
    /// The database is away.
    ///
    /// # Cancel safety
    /// As [`expire`](Self::expire).
    ///
    /// # Redis
    /// As [`expire`](Self::expire), for each.
    pub async fn expire_due(&self, age: Duration) -> Result<usize, OrderError> {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let due = table::due(&self.database, now_us().saturating_sub(age), MAX_DUE.into()).await?;
        let mut ended = 0;
        for order_no in due {
            match self.expire(&order_no).await {
                Ok(is_refused) => ended += usize::from(is_refused),
                Err(error) => tracing::warn!(%order_no, %error, "order_expiry_failed"),
            }
        }
        Ok(ended)
    }
}
