//! A shop on either store, with a database in memory.

use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_core::{Key, Keys, Prefix};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_shop::database::Database;
use lockkeeper_shop::sale::{
    Bought, Buyer, Mode, Outcome, PREFIX, SaleStore, Sales, Seen, Sku, Terms, Ticket, Worker,
};
use lockkeeper_testkit::wait::until;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Anything that should happen, happens within this.
pub(crate) const SOON: Duration = Duration::from_secs(20);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Everything that a process of the shop has.
pub(crate) struct Shop {
    pub(crate) sales: Sales,
    pub(crate) store: SaleStore,
    pub(crate) database: Database,
    pub(crate) keeper: Keeper,
    pub(crate) server: Option<RedisServer>,
}

impl Shop {
    async fn on(store: Option<SaleStore>, keeper: Keeper, server: Option<RedisServer>, mode: Mode) -> Self {
        let database = Database::open("sqlite::memory:").await.unwrap();
        let store = store.unwrap_or_else(|| SaleStore::of(&keeper));
        let sales = Sales::on(store.clone(), keeper.clone(), database.clone(), mode);
        Self { sales, store, database, keeper, server }
    }

    /// Another process on the same store and database.
    pub(crate) fn another(&self) -> Sales {
        let (store, keeper, database) = (self.store.clone(), self.keeper.clone(), self.database.clone());
        Sales::on(store, keeper, database, self.sales.mode())
    }

    /// The store loses everything, as after `FLUSHALL` or a restart without persistence.
    pub(crate) fn flush(&self) {
        self.store.forget();
        if let Some(server) = &self.server {
            server.command(&["FLUSHALL"]).unwrap();
        }
    }

    /// Opens a sale that is on for an hour, and began a second ago.
    pub(crate) async fn opened(&self, initial: u32, shards: u8) -> Terms {
        let opens_at = self.store.now().before(Duration::from_secs(1));
        let terms = Terms { sku: sku(), initial, opens_at, closes_at: opens_at.after(HOUR), shards };
        self.sales.open(terms.clone()).await.unwrap();
        terms
    }

    pub(crate) async fn buys(&self, who: &Buyer) -> Bought {
        self.sales.buy(&sku(), who).await.unwrap()
    }

    pub(crate) async fn outcome(&self, who: &Buyer) -> Outcome {
        self.sales.outcome(&sku(), who).await.unwrap()
    }

    /// Runs a statement of which nobody knows but the test.
    pub(crate) async fn sql(&self, statement: &'static str) {
        sqlx::query(statement).execute(self.database.writer()).await.unwrap();
    }

    /// Nothing is queued any more.
    pub(crate) async fn drained(&self) {
        until("the outboxes are empty", SOON, async || self.sales.stock(&sku()).await.unwrap().queued == 0)
            .await;
    }

    pub(crate) fn at(&self, shard: u8) -> Keys {
        Key::new(&Prefix::new(PREFIX).unwrap(), format!("{{{}:{shard}}}", sku())).unwrap().into()
    }
}

/// A worker that runs until it is told to end.
pub(crate) struct Working {
    pub(crate) seen: Arc<Seen>,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Working {
    pub(crate) fn start(worker: Worker) -> Self {
        let (end, ended) = oneshot::channel();
        let seen = worker.seen();
        let task = tokio::spawn(worker.run(async {
            let _ = ended.await;
        }));
        Self { seen, end, task }
    }

    pub(crate) async fn end(self) {
        let _ = self.end.send(());
        tokio::time::timeout(SOON, self.task).await.expect("it ends").unwrap();
    }
}

/// The stores that are there: always the one inside this process.
pub(crate) async fn shops(mode: Mode) -> Vec<Shop> {
    let memory = Keeper::connect("memory://").await.unwrap();
    let mut shops = vec![Shop::on(None, memory, None, mode).await];
    if available(ServerKind::Redis) {
        let server = RedisServer::builder().start().unwrap();
        let keeper = Keeper::connect(&server.url()).await.unwrap();
        shops.push(Shop::on(None, keeper, Some(server), mode).await);
    }
    shops
}

/// One store inside this process, whose clock is stepped by hand.
pub(crate) async fn stepped(store: SaleStore) -> Shop {
    let keeper = Keeper::connect("memory://").await.unwrap();
    Shop::on(Some(store), keeper, None, Mode::Protected).await
}

pub(crate) fn sku() -> Sku {
    "sku-9".parse().unwrap()
}

pub(crate) fn buyer(n: usize) -> Buyer {
    format!("buyer-{n}").parse().unwrap()
}

/// Buyers whose home is this shard of a sale of so many.
pub(crate) fn buyers_of(terms: &Terms, shard: u8) -> impl Iterator<Item = Buyer> {
    let terms = terms.clone();
    (0..).map(buyer).filter(move |buyer| terms.home(buyer) == shard)
}

pub(crate) fn accepted(bought: &Bought) -> Option<Ticket> {
    match bought {
        Bought::Accepted { ticket } => Some(ticket.clone()),
        _ => None,
    }
}
