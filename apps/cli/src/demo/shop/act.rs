//! One sale: the crowd comes, something crashes midway, and the books are read.

use std::time::Duration;

use anyhow::Context as _;
use lockkeeper_shop::buyers::{Crowd, rush};
use lockkeeper_shop::sale::{Mode, Sales, Sku, Stock};

use super::host::Host;
use super::outcome::Act;
use super::progress::Bar;
use super::stage::Stage;

/// When everybody goes home.
const WITHIN: Duration = Duration::from_secs(20);
/// So often a buyer tries.
const TRIES: u32 = 30;
const CONNECTIONS: usize = 128;
/// The crash comes when so many buyers of a hundred have their answer.
const CRASH_AT: u32 = 10;
/// How long the last orders may take to be written.
const WRITTEN_WITHIN: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Plays it, and closes the shop.
pub(super) async fn play(stage: &Stage, mode: Mode, show: bool) -> anyhow::Result<Act> {
    let (act, host) = play_and_keep(stage, mode, show).await?;
    host.close().await;
    Ok(act)
}

/// Plays it; the shop stays open.
pub(super) async fn play_and_keep(stage: &Stage, mode: Mode, show: bool) -> anyhow::Result<(Act, Host)> {
    let mut host = Host::open(stage, mode).await?;
    let sku = stage.sku(mode)?;
    let crowd = Crowd {
        buyers: stage.buyers,
        connections: CONNECTIONS,
        tries: TRIES,
        within: WITHIN,
        ..Crowd::new(host.addresses(), sku.clone())
    };
    let bar = Bar::new(if mode == Mode::Naive { "naive" } else { "protected" }, stage.buyers, show);
    let (midway, passed) = tokio::sync::oneshot::channel();
    let mut midway = Some(midway);
    let crash_at = stage.buyers.saturating_mul(CRASH_AT) / 100;
    let rush = rush(crowd, |progress| {
        bar.show(progress);
        if progress.finished >= crash_at
            && let Some(midway) = midway.take()
        {
            let _ = midway.send(());
        }
    });
    let mut crashed = false;
    tokio::pin!(rush);
    let report = tokio::select! {
        report = &mut rush => report,
        _ = passed => {
            host.crash().await?;
            crashed = true;
            rush.await
        }
    };
    drop(bar);
    if !crashed {
        host.crash().await?;
    }
    let sales = host.running().shop().sales().clone();
    let stock = written(&sales, &sku).await?;
    let duplicates = sales.duplicates(&sku).await?;
    Ok((Act::new(stage.stock, stock, duplicates, report), host))
}

/// The books, when every ticket has its order.
async fn written(sales: &Sales, sku: &Sku) -> anyhow::Result<Stock> {
    let until = tokio::time::Instant::now() + WRITTEN_WITHIN;
    loop {
        let stock = sales.stock(sku).await.context("reading the books")?;
        if stock.queued == 0 || tokio::time::Instant::now() >= until {
            return Ok(stock);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
