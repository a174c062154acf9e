//! What a process does beside answering: it writes the flash sale's orders, and ends orders that nobody paid.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::orders::Orders;
use crate::sale::Sales;

const EXPIRY_PACE: Duration = Duration::from_secs(5);

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

/// True was said, or nobody is left to say it.
pub(super) async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
