//! What a process does beside answering: it writes the flash sale's orders, brings back what the store has lost of sales, and
//! ends orders that nobody paid.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::orders::Orders;
use crate::sale::{SaleError, Sales, Sku};

const EXPIRY_PACE: Duration = Duration::from_secs(5);
/// How often store and database are compared.
const RECONCILE_PACE: Duration = Duration::from_secs(30);
/// How long it takes at least from one restoring of what was lost to the next.
const RESTORE_PAUSE: Duration = Duration::from_millis(100);

/// Writes orders until it is told to stop.
pub(super) fn worker(sales: &Sales, name: &str, stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let worker = sales.worker(name);
    tokio::spawn(async move { worker.run(stopped(stop)).await })
}

/// Refuses orders that are not paid in time, until it is told to stop.
pub(super) fn expiry(orders: Orders, age: Duration, stop: watch::Receiver<bool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut pace = interval(EXPIRY_PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stopped = stopped(stop);
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                () = &mut stopped => return,
                _ = pace.tick() => {}
            }
            if let Err(error) = orders.expire_due(age).await {
                tracing::warn!(%error, "shop_expiry_failed");
            }
        }
    })
}

/// Keeps the sales in order until it is told to stop: now and then all of them, and at once those of which a click found that
/// the store has lost them.
pub(super) fn upkeep(sales: Sales, stop: watch::Receiver<bool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut pace = interval(RECONCILE_PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stopped = stopped(stop);
        tokio::pin!(stopped);
        loop {
            let failed = tokio::select! {
                () = &mut stopped => return,
                _ = pace.tick() => sales.reconcile_all().await,
                () = sales.lost() => sales.restore_all().await,
            };
            failed.iter().for_each(|(sku, error)| say(sku, error));
            tokio::select! {
                () = &mut stopped => return,
                () = sleep(RESTORE_PAUSE) => {}
            }
        }
    })
}

/// That others are at it, or workers not yet done, is how it goes.
fn say(sku: &Sku, error: &SaleError) {
    match error {
        SaleError::Busy(..) | SaleError::TicketsUnderWay(..) => {
            tracing::debug!(%sku, %error, "shop_sale_busy");
        }
        _ => tracing::warn!(%sku, %error, "shop_upkeep_failed"),
    }
}

/// True was said, or nobody is left to say it.
pub(super) async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
