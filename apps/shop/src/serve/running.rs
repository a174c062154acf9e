//! A process of the shop, running.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use lockkeeper::Keeper;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::args::ServeArgs;
use super::listen::{Bounds, HEAD_WITHIN, MAX_CONNECTIONS, listen};
use super::{chores, opening};
use crate::database::Database;
use crate::orders::Orders;
use crate::payment::FakeProvider;
use crate::sale::{Mode, Sales};
use crate::web::{Parts, Shop, router};

/// How long the end waits: for requests under way, for the chores, and for locks that are given back; each.
pub const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A shop that answers. Stop it; dropped, it goes on until its runtime ends.
#[must_use = "a shop has to be stopped"]
pub struct Running {
    address: SocketAddr,
    shop: Shop,
    keeper: Keeper,
    database: Database,
    provider: FakeProvider,
    stop: watch::Sender<bool>,
    served: JoinHandle<()>,
    tasks: Vec<JoinHandle<()>>,
}

/// Connects, opens the sale and listens.
///
/// # Errors
/// The store or the database cannot be reached, the sale cannot be opened, or the address cannot be listened on.
///
/// # Cancel safety
/// The sale may have been opened.
///
/// # Redis
/// As [`Sales::open`].
pub async fn start(args: ServeArgs) -> Result<Running> {
    args.check()?;
    let database = Database::open(&args.database).await.map_err(|error| anyhow!("{error}"))?;
    let keeper = Keeper::connect(&args.url).await.context("the store")?;
    let mode = if args.naive { Mode::Naive } else { Mode::Protected };
    let sales = Sales::new(keeper.clone(), database.clone(), mode);
    opening::open(&sales, opening::terms(&args)).await?;
    let provider = FakeProvider::new(database.clone()).slow(Duration::from_millis(args.payment_delay));
    let orders = Orders::new(keeper.clone(), database.clone(), Arc::new(provider.clone()));
    let parts =
        Parts { keeper: keeper.clone(), sales, orders, limits: args.limits(), featured: args.sku.clone() };
    let shop = Shop::new(parts)?;
    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
    let address = listener.local_addr()?;
    let (stop, told) = watch::channel(false);
    let served = serve(listener, &shop, told.clone())?;
    let mut tasks = vec![
        chores::upkeep(shop.sales().clone(), told.clone()),
        chores::expiry(shop.orders().clone(), args.pay_within(), told.clone()),
    ];
    if !args.no_worker {
        tasks.push(chores::worker(shop.sales(), &format!("worker-{}", std::process::id()), told));
    }
    Ok(Running { address, shop, keeper, database, provider, stop, served, tasks })
}

fn serve(listener: TcpListener, shop: &Shop, stop: watch::Receiver<bool>) -> Result<JoinHandle<()>> {
    let bounds = Bounds { connections: MAX_CONNECTIONS, head_within: HEAD_WITHIN };
    Ok(tokio::spawn(listen(listener, router(shop.clone())?, bounds, stop)))
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it does.
    pub fn shop(&self) -> &Shop {
        &self.shop
    }

    /// Who takes the money.
    pub fn provider(&self) -> &FakeProvider {
        &self.provider
    }

    /// Ends: takes no more requests, lets those under way end, then the chores, then the keeper; each for at most
    /// [`STOP_WITHIN`].
    ///
    /// # Errors
    /// None.
    ///
    /// # Cancel safety
    /// It goes on ending.
    ///
    /// # Redis
    /// As [`Keeper::close`].
    pub async fn stop(self) {
        self.stop.send_replace(true);
        ended(self.served).await;
        // Orders with a key end though their client has gone.
        if timeout(STOP_WITHIN, self.shop.drained()).await.is_err() {
            tracing::warn!("shop_orders_cut_off");
        }
        for task in self.tasks {
            ended(task).await;
        }
        let closed = self.keeper.close(STOP_WITHIN).await;
        if closed.still_held > 0 || closed.undone > 0 {
            tracing::warn!(?closed, "shop_keeper_closed");
        }
        // A statement that hangs is not waited for.
        let _ = timeout(STOP_WITHIN, self.database.close()).await;
    }
}

/// It has been told to end.
async fn ended(mut task: JoinHandle<()>) {
    if timeout(STOP_WITHIN, &mut task).await.is_err() {
        task.abort();
    }
}
