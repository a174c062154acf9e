//! Opening the sale, which every process of the shop tries.

use std::time::Duration;

use anyhow::{Context, Result};
use lockkeeper::SystemClock;
use lockkeeper::core::{Clock, Timestamp};

use super::args::ServeArgs;
use crate::sale::{SaleError, Sales, Terms};

const DAY_US: u64 = 24 * 3600 * 1_000_000;
const HOUR: Duration = Duration::from_secs(3600);
/// How often it is tried while another process opens it.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// The terms that were asked for. The same for processes that start on the same day.
pub(super) fn terms(args: &ServeArgs) -> Terms {
    let today = SystemClock.wall().as_micros() / DAY_US * DAY_US;
    let opens_at = args.opens_at.map_or(today, |seconds| seconds * 1_000_000);
    let opens_at = Timestamp::from_micros(opens_at);
    let closes_at = opens_at.after(HOUR * args.open_for);
    Terms { sku: args.sku.clone(), initial: args.stock, opens_at, closes_at, shards: args.shards }
}

/// Opens it, unless it is open, and then brings back what the store has lost of it, whatever its terms are.
pub(super) async fn open(sales: &Sales, terms: Terms) -> Result<()> {
    let mut tried = 0;
    loop {
        match open_once(sales, &terms).await {
            Ok(()) => return Ok(()),
            // They wait for a worker, which is in this process perhaps. The chores go on with it.
            Err(error @ SaleError::TicketsUnderWay(..)) => {
                tracing::warn!(%error, "shop_sale_not_restored_yet");
                return Ok(());
            }
            Err(error) if error.is_transient() && tried < TRIES => tried += 1,
            Err(error) => return Err(error).context("the sale cannot be opened"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn open_once(sales: &Sales, terms: &Terms) -> Result<(), SaleError> {
    match sales.open(terms.clone()).await {
        Err(error @ SaleError::OtherTerms(_)) => {
            tracing::warn!(%error, "shop_sale_was_open");
            sales.reconcile(&terms.sku).await.map(drop)
        }
        opened => opened,
    }
}
