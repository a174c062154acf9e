//! The shop's database: SQLite in a file, which several processes share, and PostgreSQL. The same statements run on both.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper::Keeper;
use lockkeeper_faults::{PostgresServer, postgres_available};
use lockkeeper_shop::database::Database;
use lockkeeper_shop::sale::{Bought, Mode, SaleStore, Sales, Sku, Terms};
use lockkeeper_testkit::wait::until;
use tokio::sync::oneshot;

const SOON: Duration = Duration::from_secs(30);
const UNITS: u32 = 60;

fn sku() -> Sku {
    "sku-9".parse().unwrap()
}

fn file_url(folder: &tempfile::TempDir) -> String {
    format!("sqlite://{}?mode=rwc", folder.path().join("shop.db").display())
}

/// Two processes, each with connections of its own and two workers, sell to twice as many buyers as there are units.
async fn two_processes_sell_everything(url: &str) {
    let keeper = Keeper::connect("memory://").await.unwrap();
    let store = SaleStore::of(&keeper);
    // At once, as after a deployment: both make the tables.
    let (one, other) = tokio::join!(Database::open(url), Database::open(url));
    let nodes = [one.unwrap(), other.unwrap()]
        .map(|database| Sales::on(store.clone(), keeper.clone(), database, Mode::Protected));
    let opens_at = store.now();
    let closes_at = opens_at.after(Duration::from_secs(3600));
    let terms = Terms { sku: sku(), initial: UNITS, opens_at, closes_at, shards: 4 };
    for node in &nodes {
        node.open(terms.clone()).await.unwrap();
    }
    let (ends, tasks): (Vec<_>, Vec<_>) = (0..4)
        .map(|n| {
            let (end, ended) = oneshot::channel::<()>();
            let worker = nodes[n % 2].worker("w").claim_after(Duration::from_millis(1));
            (end, tokio::spawn(worker.run(async { drop(ended.await) })))
        })
        .unzip();
    let clicks = (0..2 * UNITS as usize).map(|n| {
        let node = nodes[n % 2].clone();
        async move { node.buy(&sku(), &format!("buyer-{n}").parse().unwrap()).await.unwrap() }
    });
    let answers = join_all(clicks).await;
    let accepted: HashSet<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            Bought::Accepted { ticket } => Some(ticket.to_string()),
            _ => None,
        })
        .collect();
    let written = async || nodes[1].stock(&sku()).await.unwrap().written == u64::from(UNITS);
    until("every order is written", SOON, written).await;
    drop(ends);
    join_all(tasks).await.into_iter().for_each(|ended| ended.unwrap());
    let reconciled = nodes[0].reconcile(&sku()).await.unwrap();
    assert!(reconciled.is_clean() && reconciled.stock.remaining == 0, "{reconciled:?}");
    // What a buyer was told and what is written are the same tickets; seen through connections that are new.
    let database = Database::open(url).await.unwrap();
    let rows: Vec<String> =
        sqlx::query_scalar("SELECT ticket FROM tickets").fetch_all(database.reader()).await.unwrap();
    assert_eq!(rows.into_iter().collect::<HashSet<_>>(), accepted);
}

async fn the_last_line_holds(url: &str) {
    let database = Database::open(url).await.unwrap();
    let run = async |statement: &'static str| {
        sqlx::query(statement)
            .execute(database.writer())
            .await
            .map_err(lockkeeper_shop::database::DatabaseError::from)
    };
    run("INSERT INTO sales (sku, initial, opens_at, closes_at, shards, sold) VALUES ('a', 1, 0, 1, 1, 1)")
        .await
        .unwrap();
    let oversold = run("UPDATE sales SET sold = 2 WHERE sku = 'a'").await.unwrap_err();
    assert!(oversold.is_permanent() && !oversold.is_duplicate(), "{oversold}");
    run("INSERT INTO tickets (ticket, sku, buyer, sold_at) VALUES ('1', 'a', 'b', 0)").await.unwrap();
    for twice in [
        "INSERT INTO tickets (ticket, sku, buyer, sold_at) VALUES ('2', 'a', 'b', 0)",
        "INSERT INTO tickets (ticket, sku, buyer, sold_at) VALUES ('1', 'a', 'c', 0)",
    ] {
        let error = run(twice).await.unwrap_err();
        assert!(error.is_duplicate(), "{error}");
    }
    run("INSERT INTO orders (order_no, buyer, sku, amount_cents, created_at) VALUES ('1', 'b', 'a', 1, 0)")
        .await
        .unwrap();
    let no_status = run("UPDATE orders SET status = 'maybe'").await.unwrap_err();
    assert!(no_status.is_permanent(), "{no_status}");
    let no_table = run("SELECT * FROM nowhere").await.unwrap_err();
    assert!(!no_table.is_permanent(), "{no_table}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_one_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    two_processes_sell_everything(&file_url(&folder)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_one_postgres() {
    if postgres_available() {
        let server = PostgresServer::start().unwrap();
        two_processes_sell_everything(&server.url()).await;
    }
}

#[tokio::test]
async fn constraints_are_the_last_line_on_sqlite_and_postgres() {
    the_last_line_holds("sqlite::memory:").await;
    if postgres_available() {
        let server = PostgresServer::start().unwrap();
        the_last_line_holds(&server.url()).await;
    }
}

/// One fails for good there as well, in the middle of a batch: PostgreSQL then refuses the rest of its transaction.
#[tokio::test]
async fn an_order_that_postgres_refuses_for_good_gives_its_unit_back_and_disturbs_no_other() {
    if !postgres_available() {
        return;
    }
    let server = PostgresServer::start().unwrap();
    let database = Database::open(&server.url()).await.unwrap();
    sqlx::query("ALTER TABLE tickets ADD CONSTRAINT lucky CHECK (buyer <> 'buyer-3')")
        .execute(database.writer())
        .await
        .unwrap();
    let sales = Sales::new(Keeper::connect("memory://").await.unwrap(), database, Mode::Protected);
    let opens_at = lockkeeper::Clock::wall(&lockkeeper::SystemClock);
    let closes_at = opens_at.after(Duration::from_secs(3600));
    sales.open(Terms { sku: sku(), initial: 9, opens_at, closes_at, shards: 1 }).await.unwrap();
    for n in 0..6 {
        sales.buy(&sku(), &format!("buyer-{n}").parse().unwrap()).await.unwrap();
    }
    let worker = sales.worker("w");
    let seen = worker.seen();
    let dealt_with = async || seen.tally().written + seen.tally().refused == 6;
    worker
        .run(async {
            let _ = until("all are dealt with", SOON, dealt_with).await;
        })
        .await;
    let stock = sales.stock(&sku()).await.unwrap();
    assert_eq!((stock.written, stock.refused, stock.remaining), (5, 1, 4));
}
