//! One sale: the crowd comes, something crashes midway, and the books are read.

use std::pin::pin;
use std::time::Duration;

use anyhow::Context as _;
use lockkeeper_shop::buyers::{Crowd, Report, rush};
use lockkeeper_shop::sale::{Mode, Sales, Sku, Stock};

use super::host::Host;
use super::outcome::{Act, Books};
use super::progress::Bar;
use super::stage::Stage;

/// When everybody goes home.
const WITHIN: Duration = Duration::from_secs(20);
/// So often a buyer tries.
const TRIES: u32 = 30;
const CONNECTIONS: usize = 128;
/// The crash comes when so many units of a hundred are sold.
const CRASH_AT: u64 = 20;
/// How long the last orders may take to be written.
const WRITTEN_WITHIN: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
    let bar = bar_of(mode, stage.buyers, show);
    let report = match mode {
        // It fails without any help.
        Mode::Naive => rush(crowd, |progress| bar.show(progress)).await,
        Mode::Protected => with_a_crash(&mut host, crowd, &bar).await?,
    };
    drop(bar);
    let sales = host.running().shop().sales().clone();
    let stock = written(&sales, &sku).await?;
    let duplicate_orders = sales.duplicates(&sku).await?;
    let is_protected = mode == Mode::Protected;
    let books = Books {
        stock,
        duplicate_orders,
        workers: host.workers_saw(),
        crashed: is_protected.then_some(if stage.processes > 0 { "process" } else { "worker" }),
        limit: if is_protected { Some(stage.serve_args(mode)?.sale_limit.to_string()) } else { None },
    };
    Ok((Act::new(stage.stock, &books, &report), host))
}

fn bar_of(mode: Mode, buyers: u32, show: bool) -> Bar {
    Bar::new(if mode == Mode::Naive { "naive" } else { "protected" }, buyers, show)
}

/// The crowd comes; midway something crashes, or at the end if it was too fast.
async fn with_a_crash(host: &mut Host, crowd: Crowd, bar: &Bar) -> anyhow::Result<Report> {
    let (sales, sku) = (host.running().shop().sales().clone(), crowd.sku.clone());
    let mut rush = pin!(rush(crowd, |progress| bar.show(progress)));
    tokio::select! {
        report = &mut rush => {
            host.crash().await?;
            Ok(report)
        }
        () = is_midway(&sales, &sku) => {
            host.crash().await?;
            Ok(rush.await)
        }
    }
}

/// Waits until a part of the stock is sold. Where the books cannot be read, that is nobody's concern here.
async fn is_midway(sales: &Sales, sku: &Sku) {
    let is_midway = |stock: Stock| stock.sold * 100 >= stock.initial * CRASH_AT;
    while !sales.stock(sku).await.is_ok_and(is_midway) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
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
