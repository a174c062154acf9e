//! Placing an order: lock, row, charge, fenced update.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockkeeper::{Acquired, Fence, Keeper, LockGuard};
use tokio::time::{sleep, timeout};

use super::error::OrderError;
use super::expire::Round;
use super::names::{Cents, OrderNo};
use super::order::{Order, Status};
use super::table;
use crate::database::Database;
use crate::payment::{PaymentError, Provider};
use crate::sale::{Buyer, Sku};

const LEASE: Duration = Duration::from_secs(10);
/// How long one caller waits for another that works on the same order.
const WAIT: Duration = Duration::from_secs(2);
/// How long one call to the provider may take.
pub const CHARGE_WITHIN: Duration = Duration::from_secs(2);
/// How often the provider is asked where it gives no answer. Its reference makes that safe.
const CHARGE_TRIES: u32 = 3;
const CHARGE_PAUSE: Duration = Duration::from_millis(50);

/// What a buyer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The order's number, which the buyer chose.
    pub order_no: OrderNo,
    /// What to buy.
    pub sku: Sku,
    /// For how much.
    pub amount: Cents,
}

/// A paid order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Paid by this call.
    Now(Order),
    /// It had been paid before.
    Before(Order),
}

/// Places, shows and expires orders. Cheap to clone.
#[derive(Clone)]
pub struct Orders {
    keeper: Keeper,
    pub(super) database: Database,
    provider: Arc<dyn Provider>,
    /// How far the expiry of this process is.
    pub(super) round: Arc<Round>,
}

impl Orders {
    /// On this store, in this database, with this provider.
    pub fn new(keeper: Keeper, database: Database, provider: Arc<dyn Provider>) -> Self {
        Self { keeper, database, provider, round: Arc::default() }
    }

    /// Charges and writes the order down, once, however often it is asked for.
    ///
    /// # Errors
    /// See [`OrderError`].
    ///
    /// # Cancel safety
    /// The order may have been placed, and charged; asked for again, it is charged no second time. The lock is given back
    /// in the background.
    ///
    /// # Redis
    /// As [`lockkeeper::Lock::acquire`], and a release.
    pub async fn place(&self, buyer: &Buyer, asked: &Asked) -> Result<Placed, OrderError> {
        let guard = self.lock(&asked.order_no).await?;
        let placed = self.place_locked(buyer, asked, guard.fence()?).await;
        release(guard).await;
        placed
    }

    /// The buyer's own order. Somebody else's is none.
    ///
    /// # Errors
    /// The database is away.
    ///
    /// # Cancel safety
    /// It changes nothing.
    ///
    /// # Redis
    /// None.
    pub async fn show(&self, buyer: &Buyer, order_no: &OrderNo) -> Result<Option<Order>, OrderError> {
        let order = table::find(&self.database, order_no).await?;
        Ok(order.filter(|order| order.buyer == *buyer))
    }

    pub(super) async fn lock(&self, order_no: &OrderNo) -> Result<LockGuard, OrderError> {
        let lock = self.keeper.lock(format!("order:{order_no}"))?.lease(LEASE).wait(WAIT);
        match lock.acquire().await? {
            Acquired::Held(guard) => Ok(guard),
            Acquired::Busy(_) => Err(OrderError::Busy),
        }
    }

    async fn place_locked(&self, buyer: &Buyer, asked: &Asked, fence: Fence) -> Result<Placed, OrderError> {
        let database = &self.database;
        if !table::insert(database, buyer, asked, (fence, now_us())).await? {
            let order = table::find(database, &asked.order_no).await?.ok_or(OrderError::Damaged)?;
            if order.buyer != *buyer {
                return Err(OrderError::Taken);
            }
            if order.sku != asked.sku || order.amount != asked.amount {
                return Err(OrderError::Differs);
            }
            match order.status {
                Status::Paid => return Ok(Placed::Before(order)),
                Status::Refused => return Err(OrderError::Refused),
                // Somebody began, and did not end. The provider knows whether it charged.
                Status::Placed if table::claim(database, &asked.order_no, fence).await? => {}
                Status::Placed => return Err(OrderError::Stale),
            }
        }
        match self.charge(asked).await {
            Ok(charge) => self.paid(asked, &charge, fence).await,
            Err(PaymentError::Declined(why)) => match self.refuse(&asked.order_no, fence).await? {
                true => Err(OrderError::Declined(why)),
                false => self.ended_by_another(asked, why).await,
            },
            Err(_) => Err(OrderError::PaymentUnknown),
        }
    }

    /// What a decline means where somebody else wrote first: the row says how the order ended.
    async fn ended_by_another(&self, asked: &Asked, why: String) -> Result<Placed, OrderError> {
        let order = table::find(&self.database, &asked.order_no).await?.ok_or(OrderError::Damaged)?;
        match order.status {
            Status::Paid => Ok(Placed::Before(order)),
            Status::Refused => Err(OrderError::Declined(why)),
            Status::Placed => Err(OrderError::Stale),
        }
    }

    async fn paid(&self, asked: &Asked, charge: &str, fence: Fence) -> Result<Placed, OrderError> {
        let end = (Status::Paid, Some(charge));
        if !table::settle(&self.database, &asked.order_no, end, fence).await? {
            // Whoever refused the order sees to its charge.
            return Err(OrderError::Stale);
        }
        let order = table::find(&self.database, &asked.order_no).await?;
        order.map(Placed::Now).ok_or(OrderError::Damaged)
    }

    /// Asks again where no answer came: the reference is the same, so it is one charge.
    async fn charge(&self, asked: &Asked) -> Result<String, PaymentError> {
        let mut answer = Err(PaymentError::Unanswered);
        for tried in 0..CHARGE_TRIES {
            sleep(CHARGE_PAUSE * tried).await;
            let call = self.provider.charge(&asked.order_no, asked.amount);
            answer = timeout(CHARGE_WITHIN, call).await.unwrap_or(Err(PaymentError::Unanswered));
            match answer {
                Err(PaymentError::Unanswered | PaymentError::Unavailable) => {}
                _ => break,
            }
        }
        answer
    }

    /// First the row, under the fence: then nobody can pay it any more. Then the money. What fails in between is done by
    /// [`expire_due`](Self::expire_due).
    pub(super) async fn refuse(&self, order_no: &OrderNo, fence: Fence) -> Result<bool, OrderError> {
        let is_refused = table::settle(&self.database, order_no, (Status::Refused, None), fence).await?;
        if is_refused {
            self.void(order_no).await?;
        }
        Ok(is_refused)
    }

    pub(super) async fn void(&self, order_no: &OrderNo) -> Result<(), OrderError> {
        let voided = timeout(CHARGE_WITHIN, self.provider.void(order_no)).await;
        voided.unwrap_or(Err(PaymentError::Unanswered)).map_err(|_| OrderError::PaymentUnknown)?;
        table::voided(&self.database, order_no).await
    }
}

/// What could not be released at once is released in the background.
pub(super) async fn release(guard: LockGuard) {
    if let Err(error) = guard.release().await {
        tracing::debug!(%error, "order_lock_release_failed");
    }
}

/// Wall clock, for people and for the age of orders; nothing else is decided by it.
pub(super) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
