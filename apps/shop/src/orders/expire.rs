//! Orders that are not paid in time.

use std::time::Duration;

use parking_lot::Mutex;

use super::error::OrderError;
use super::names::OrderNo;
use super::order::Status;
use super::place::{Orders, now_us, release};
use super::table;

/// The most orders that one round ends.
pub const MAX_DUE: u16 = 256;

/// How far one goes through what is due: a round goes on behind the last one, so that orders that cannot be ended do not
/// stand before all others.
#[derive(Debug, Default)]
pub(super) struct Round {
    behind: Mutex<table::Place>,
}

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
            Some(order) if order.status == Status::Placed => self.refuse(order_no, guard.fence()?).await,
            Some(order) if order.status == Status::Refused => self.void(order_no).await.map(|()| true),
            _ => Ok(false),
        };
        release(guard).await;
        ended
    }

    /// [`expire`](Self::expire) for orders older than `age` that are not paid, and for refused ones whose money is not settled;
    /// at most [`MAX_DUE`] of them, from where the last call stopped. How many were ended; those that somebody works on, or
    /// that fail, are left for a later round, when all others have had their turn.
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
        let (cutoff, behind) = (now_us().saturating_sub(age), self.round.behind.lock().clone());
        let due = table::due(&self.database, cutoff, &behind, MAX_DUE.into()).await?;
        let is_last = due.len() < usize::from(MAX_DUE);
        *self.round.behind.lock() = due.last().filter(|_| !is_last).cloned().unwrap_or_default();
        let mut ended = 0;
        for (_, order_no) in due {
            match self.expire_row(&order_no).await {
                Ok(is_refused) => ended += usize::from(is_refused),
                Err(error) => tracing::warn!(order_no, %error, "order_expiry_failed"),
            }
        }
        Ok(ended)
    }

    async fn expire_row(&self, order_no: &str) -> Result<bool, OrderError> {
        let order_no = order_no.parse().map_err(|_| OrderError::Damaged)?;
        self.expire(&order_no).await
    }
}
