//! Processes of the shop that are killed while they sell, write, and take orders over HTTP, again and again. No ticket without
//! an order, no order without a ticket, nothing sold twice, nothing lost, no money without an order, and no key without an
//! expiry.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod shopping;

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper::{Clock, Keeper, SystemClock};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_shop::config::Limits;
use lockkeeper_shop::database::Database;
use lockkeeper_shop::orders::Orders;
use lockkeeper_shop::payment::{FakeProvider, Ledger, Trouble};
use lockkeeper_shop::sale::{Bought, Mode, Sales, Sku, Terms};
use lockkeeper_shop::web::{Parts, Shop, router};
use lockkeeper_testkit::runs;
use lockkeeper_testkit::wait::until;
use shopping::Customer;
use tokio::sync::oneshot;

/// How many processes are killed, without `LOCKKEEPER_KILLS`.
const KILLS: u64 = 1000;
/// A sale ends after so many; then it is counted, and the next one begins.
const KILLS_PER_SALE: u64 = 50;
/// Processes at a time.
const AT_ONCE: usize = 4;
/// Sold out before its processes are, so that the last units wander from shard to shard.
const UNITS: u32 = 800;
const SHARDS: u8 = 8;
/// A process lives for up to so long after its first click.
const LONGEST_LIFE_US: u64 = 60_000;
const PAUSE: Duration = Duration::from_micros(500);
const CLAIM_AFTER: Duration = Duration::from_millis(50);
const SOON: Duration = Duration::from_secs(60);
/// Order numbers, each with its idempotency key: few enough that processes meet what a dead one began.
const ORDERS: u64 = 3000;
const CENTS: u64 = 1250;
/// How long a payment takes: long enough to be killed in the middle of it.
const PAYMENT: Duration = Duration::from_millis(3);
/// A lease of a dead process ends within this.
const LEASES: Duration = Duration::from_secs(40);
/// A process whose parent went away ends by itself.
const NEVER_LONGER: Duration = Duration::from_secs(30);

const URL: &str = "LOCKKEEPER_TEST_SHOP_URL";
const DATABASE: &str = "LOCKKEEPER_TEST_SHOP_DATABASE";
const SALE: &str = "LOCKKEEPER_TEST_SHOP_SALE";
const SEED: &str = "LOCKKEEPER_TEST_SHOP_SEED";

/// A small generator of numbers, so that a seed repeats a run (but for the timing of the processes).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// What the processes share.
struct Place {
    url: String,
    database: String,
}

impl Place {
    async fn sales(&self) -> Sales {
        let keeper = Keeper::connect(&self.url).await.unwrap();
        Sales::new(keeper, Database::open(&self.database).await.unwrap(), Mode::Protected)
    }

    /// A shop for orders that listens, and its provider.
    async fn serve(&self) -> (Customer, Orders, FakeProvider) {
        let (keeper, database) =
            (Keeper::connect(&self.url).await.unwrap(), Database::open(&self.database).await.unwrap());
        let provider = FakeProvider::new(database.clone()).slow(PAYMENT);
        let orders = Orders::new(keeper.clone(), database.clone(), Arc::new(provider.clone()));
        let sales = Sales::new(keeper.clone(), database, Mode::Protected);
        let limits = Limits { orders: "1000000/s".parse().unwrap(), ..Limits::standard().unwrap() };
        let featured = "lantern".parse().unwrap();
        let shop = Shop::new(Parts { keeper, sales, orders: orders.clone(), limits, featured }).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let customer = Customer::at(listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, router(shop).unwrap()).into_future());
        (customer, orders, provider)
    }
}

/// What the buyers of a process, and its customers, were told.
#[derive(Default)]
struct Told {
    /// Tickets that were accepted.
    tickets: HashSet<String>,
    /// Orders that are made and paid.
    paid: HashSet<String>,
}

impl Told {
    fn add(&mut self, other: Self) {
        self.tickets.extend(other.tickets);
        self.paid.extend(other.paid);
    }

    /// A line without an end was cut off by the kill.
    fn read(&mut self, line: &str) {
        match line.strip_suffix('\n').and_then(|line| line.split_once(' ')) {
            Some(("accepted", ticket)) => drop(self.tickets.insert(ticket.to_owned())),
            Some(("paid", order_no)) => drop(self.paid.insert(order_no.to_owned())),
            _ => {}
        }
    }
}

/// A process that buys and writes until it is killed.
struct Life {
    child: Child,
    told: JoinHandle<Told>,
    clicked: Receiver<()>,
}

impl Life {
    fn begin(place: &Place, sku: &Sku, seed: u64) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "helper_that_is_killed", "--nocapture"]);
        command.env(URL, &place.url).env(DATABASE, &place.database);
        command.env(SALE, sku.as_str()).env(SEED, seed.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let (clicks, clicked) = channel();
        let told = thread::spawn(move || {
            let (mut told, mut line) = (Told::default(), String::new());
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                told.read(&line);
                if line.starts_with("clicked") {
                    let _ = clicks.send(());
                }
                line.clear();
            }
            told
        });
        Self { child, told, clicked }
    }

    /// Kills it so long after its first click. Answers what it had told.
    fn end(mut self, after: Duration) -> Told {
        self.clicked.recv_timeout(SOON).expect("it clicks");
        thread::sleep(after);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.told.join().unwrap()
    }
}

/// Kills processes of one sale; answers what buyers had been told.
fn kill_many(place: &Place, sku: &Sku, dice: &mut Dice) -> Told {
    let mut told = Told::default();
    let mut lives: Vec<Life> = Vec::new();
    for begun in 0..KILLS_PER_SALE + AT_ONCE as u64 {
        if begun >= AT_ONCE as u64 {
            let after = Duration::from_micros(dice.below(LONGEST_LIFE_US));
            told.add(lives.remove(0).end(after));
        }
        if begun < KILLS_PER_SALE {
            lives.push(Life::begin(place, sku, dice.below(u64::from(u32::MAX))));
        }
    }
    told
}

/// A worker that lives writes what the dead had left; then all counts have to agree.
async fn settle_and_count(
    sales: &Sales,
    database: &Database,
    sku: &Sku,
    told: &HashSet<String>,
) -> (u64, u64) {
    let worker = sales.worker("survivor").claim_after(CLAIM_AFTER);
    let (seen, (end, ended)) = (worker.seen(), oneshot::channel::<()>());
    let task = tokio::spawn(worker.run(async { drop(ended.await) }));
    until("the outboxes are empty", SOON, async || sales.stock(sku).await.unwrap().queued == 0).await;
    drop(end);
    task.await.unwrap();
    let reconciled = sales.reconcile(sku).await.unwrap();
    assert!(reconciled.is_clean(), "{sku}: {reconciled:?}");
    let stock = reconciled.stock;
    assert_eq!((stock.refused, stock.in_transit, stock.queued), (0, 0, 0), "{sku}: {stock:?}");
    assert_eq!(stock.sold, stock.written, "{sku}: {stock:?}");
    assert_eq!(stock.sold + u64::try_from(stock.remaining).unwrap(), u64::from(UNITS), "{sku}: {stock:?}");
    let rows: Vec<String> = sqlx::query_scalar("SELECT ticket FROM tickets WHERE sku = $1")
        .bind(sku.as_str())
        .fetch_all(database.reader())
        .await
        .unwrap();
    let rows: HashSet<String> = rows.into_iter().collect();
    assert_eq!(rows.len() as u64, stock.sold);
    let lost: Vec<&String> = told.difference(&rows).collect();
    assert!(lost.is_empty(), "{sku}: {} accepted tickets became no order: {lost:?}", lost.len());
    (seen.tally().taken_over, reconciled.finished_transfers)
}

/// What the dead left half done is ended, one half by customers who ask again with the same key, the other by expiry. Then
/// money and orders have to agree.
async fn settle_orders(place: &Place, told: &Told) {
    let database = Database::open(&place.database).await.unwrap();
    let (customer, orders, _provider) = place.serve().await;
    let half_done: Vec<String> = sqlx::query_scalar("SELECT order_no FROM orders WHERE status = 'placed'")
        .fetch_all(database.reader())
        .await
        .unwrap();
    for order_no in half_done.iter().step_by(2) {
        until("the order is paid", LEASES, async || {
            let answer = click(&customer, order_no).await;
            assert!([200, 201, 409, 503].contains(&answer.status), "{answer:?}");
            [200, 201].contains(&answer.status)
        })
        .await;
    }
    let unsettled = "SELECT COUNT(*) FROM orders WHERE charge IS NULL";
    until("all orders are settled", LEASES, async || {
        orders.expire_due(Duration::ZERO).await.unwrap();
        sqlx::query_scalar::<_, i64>(unsettled).fetch_one(database.reader()).await.unwrap() == 0
    })
    .await;
    let rows: Vec<(String, String)> =
        sqlx::query_as("SELECT order_no, status FROM orders").fetch_all(database.reader()).await.unwrap();
    let rows: BTreeMap<_, _> = rows.into_iter().collect();
    let paid = rows.values().filter(|status| *status == "paid").count() as u64;
    let taken = Ledger::new(database).taken().await.unwrap();
    assert_eq!((taken.charges, taken.cents), (paid, paid * CENTS), "money and orders agree");
    let broken: Vec<_> =
        told.paid.iter().filter(|order| rows.get(*order).is_none_or(|row| row != "paid")).collect();
    assert!(broken.is_empty(), "told that they are paid: {broken:?}");
    eprintln!(
        "{} orders told of; {paid} paid of {} in the end; {} were left half done",
        told.paid.len(),
        rows.len(),
        half_done.len()
    );
    assert!(!told.paid.is_empty() && !half_done.is_empty());
}

async fn click(customer: &Customer, order_no: &str) -> shopping::Answer {
    customer.order_with_key("ann", &format!("key-{order_no}"), &shopping::order(order_no)).await
}

/// C53: a thousand times. Real time, about a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c46_c53_a_thousand_killed_processes_lose_no_ticket_sell_nothing_twice_and_charge_once() {
    if !available(ServerKind::Redis) {
        return;
    }
    let kills = env::var("LOCKKEEPER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let (seed, folder) = (runs::seed(), tempfile::tempdir().unwrap());
    eprintln!("LOCKKEEPER_SEED={seed}");
    let server = RedisServer::builder().start().unwrap();
    let database = format!("sqlite://{}?mode=rwc", folder.path().join("shop.db").display());
    let place = Place { url: server.url(), database };
    let (sales, database) = (place.sales().await, Database::open(&place.database).await.unwrap());
    let (mut dice, mut all, mut taken_over, mut finished) = (Dice(seed), Told::default(), 0, 0);
    for round in 0..kills.div_ceil(KILLS_PER_SALE) {
        let sku: Sku = format!("sku-{round}").parse().unwrap();
        let opens_at = SystemClock.wall().before(Duration::from_secs(1));
        let closes_at = opens_at.after(Duration::from_secs(3600));
        let terms = Terms { sku: sku.clone(), initial: UNITS, opens_at, closes_at, shards: SHARDS };
        sales.open(terms).await.unwrap();
        let told = tokio::task::block_in_place(|| kill_many(&place, &sku, &mut dice));
        let (over, moved) = settle_and_count(&sales, &database, &sku, &told.tickets).await;
        all.add(told);
        taken_over += over;
        finished += moved;
    }
    eprintln!(
        "{} tickets told of, {taken_over} messages and {finished} transfers left behind at the end",
        all.tickets.len()
    );
    assert!(!all.tickets.is_empty());
    settle_orders(&place, &all).await;
    every_key_expires(&server);
    let moved = server.command(&["KEYS", "shop:~moved:*"]).unwrap();
    assert!(!moved.as_array().unwrap().is_empty(), "no unit ever moved from shard to shard");
}

/// C46, invariant 7.
fn every_key_expires(server: &RedisServer) {
    let keys = server.command(&["KEYS", "*"]).unwrap();
    let keys = keys.as_array().unwrap();
    assert!(!keys.is_empty());
    for key in keys {
        let key = key.as_str().unwrap();
        assert!(server.command(&["PTTL", key]).unwrap().as_int().unwrap() >= 0, "{key} has no expiry");
    }
}

/// One half of them sells and writes, the other takes orders.
#[tokio::test]
#[ignore = "a helper process of another test"]
async fn helper_that_is_killed() {
    let Ok(url) = env::var(URL) else { return };
    let place = Place { url, database: env::var(DATABASE).unwrap() };
    let mut dice = Dice(env::var(SEED).unwrap().parse().unwrap());
    if dice.below(2) == 0 {
        let first = dice.below(ORDERS);
        let _ = tokio::time::timeout(NEVER_LONGER, order_until_killed(&place, first)).await;
    } else {
        let _ = tokio::time::timeout(NEVER_LONGER, sell_until_killed(&place, dice)).await;
    }
}

async fn sell_until_killed(place: &Place, mut dice: Dice) {
    let sku: Sku = env::var(SALE).unwrap().parse().unwrap();
    let sales = place.sales().await;
    tokio::spawn(sales.worker("mortal").claim_after(CLAIM_AFTER).run(std::future::pending()));
    println!("\nclicked");
    loop {
        // Few enough that some click again.
        let buyer = format!("buyer-{}", dice.below(u64::from(UNITS) * 2)).parse().unwrap();
        if let Ok(Bought::Accepted { ticket }) = sales.buy(&sku, &buyer).await {
            println!("accepted {ticket}");
            std::io::stdout().flush().unwrap();
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Orders over HTTP, one after the other, from a process that serves them itself. Both are killed at once, so what was told is
/// what was written down before.
async fn order_until_killed(place: &Place, first: u64) {
    let (customer, _orders, provider) = place.serve().await;
    println!("\nclicked");
    for number in first.. {
        if number % 5 == 0 {
            provider.next(Trouble::LosesReply);
        }
        let order_no = format!("o-{}", number % ORDERS);
        // From time to time a double click.
        let answers = match number % 3 {
            0 => vec![click(&customer, &order_no).await],
            _ => join_all((0..2).map(|_| click(&customer, &order_no))).await,
        };
        if answers.iter().any(|answer| answer.status == 201) {
            println!("paid {order_no}");
            std::io::stdout().flush().unwrap();
        }
    }
}
