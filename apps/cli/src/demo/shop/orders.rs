//! Orders that are sent twice at once, and again.

use anyhow::Context as _;
use lockkeeper_shop::buyers::order_twice;

use super::host::Host;
use super::outcome::Orders;
use super::unique;

const CUSTOMERS: u32 = 100;

/// Lets them order, and asks the database and the payment provider what came of it.
pub(super) async fn play(host: &Host) -> anyhow::Result<Orders> {
    let before = taken(host).await?;
    let seen = order_twice(host.addresses(), CUSTOMERS, &unique()).await;
    Ok(Orders { seen, charges: taken(host).await? - before })
}

/// Charges so far.
async fn taken(host: &Host) -> anyhow::Result<u64> {
    Ok(host.running().provider().taken().await.context("asking the payment provider")?.charges)
}
