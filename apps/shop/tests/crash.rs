//! Processes of the shop that are killed while they sell and write, again and again. No ticket without an order, no order
//! without a ticket, nothing sold twice, nothing lost, and no key without an expiry.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::collections::HashSet;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockkeeper::{Clock, Keeper, SystemClock};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_shop::database::Database;
use lockkeeper_shop::sale::{Bought, Mode, Sales, Sku, Terms};
use lockkeeper_testkit::runs;
use lockkeeper_testkit::wait::until;
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
}

/// A process that buys and writes until it is killed.
struct Life {
    child: Child,
    told: JoinHandle<Vec<String>>,
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
            let (mut told, mut line) = (Vec::new(), String::new());
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                // A line without an end was cut off by the kill.
                if let Some(ticket) = line.strip_prefix("accepted ").and_then(|rest| rest.strip_suffix('\n'))
                {
                    told.push(ticket.to_owned());
                }
                if line.starts_with("clicked") {
                    let _ = clicks.send(());
                }
                line.clear();
            }
            told
        });
        Self { child, told, clicked }
    }

    /// Kills it so long after its first click. Answers which tickets it had told of.
    fn end(mut self, after: Duration) -> Vec<String> {
        self.clicked.recv_timeout(SOON).expect("it clicks");
        thread::sleep(after);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.told.join().unwrap()
    }
}

/// Kills processes of one sale; answers which tickets buyers had been told of.
fn kill_many(place: &Place, sku: &Sku, dice: &mut Dice) -> HashSet<String> {
    let mut told = HashSet::new();
    let mut lives: Vec<Life> = Vec::new();
    for begun in 0..KILLS_PER_SALE + AT_ONCE as u64 {
        if begun >= AT_ONCE as u64 {
            let after = Duration::from_micros(dice.below(LONGEST_LIFE_US));
            told.extend(lives.remove(0).end(after));
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

/// C53: a thousand times. Real time, about a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c46_c53_a_thousand_killed_processes_lose_no_ticket_and_sell_nothing_twice() {
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
    let (mut dice, mut sold_to, mut taken_over, mut finished) = (Dice(seed), 0, 0, 0);
    for round in 0..kills.div_ceil(KILLS_PER_SALE) {
        let sku: Sku = format!("sku-{round}").parse().unwrap();
        let opens_at = SystemClock.wall().before(Duration::from_secs(1));
        let closes_at = opens_at.after(Duration::from_secs(3600));
        let terms = Terms { sku: sku.clone(), initial: UNITS, opens_at, closes_at, shards: SHARDS };
        sales.open(terms).await.unwrap();
        let told = tokio::task::block_in_place(|| kill_many(&place, &sku, &mut dice));
        let (over, moved) = settle_and_count(&sales, &database, &sku, &told).await;
        sold_to += told.len();
        taken_over += over;
        finished += moved;
    }
    eprintln!(
        "{sold_to} tickets told of, {taken_over} messages and {finished} transfers left behind at the end"
    );
    assert!(sold_to > 0);
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

#[tokio::test]
#[ignore = "a helper process of another test"]
async fn helper_that_is_killed() {
    let Ok(url) = env::var(URL) else { return };
    let place = Place { url, database: env::var(DATABASE).unwrap() };
    let sku: Sku = env::var(SALE).unwrap().parse().unwrap();
    let mut dice = Dice(env::var(SEED).unwrap().parse().unwrap());
    let sales = place.sales().await;
    tokio::spawn(sales.worker("mortal").claim_after(CLAIM_AFTER).run(std::future::pending()));
    println!("\nclicked");
    let buying = async {
        loop {
            // Few enough that some click again.
            let buyer = format!("buyer-{}", dice.below(u64::from(UNITS) * 2)).parse().unwrap();
            if let Ok(Bought::Accepted { ticket }) = sales.buy(&sku, &buyer).await {
                println!("accepted {ticket}");
                std::io::stdout().flush().unwrap();
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _ = tokio::time::timeout(NEVER_LONGER, buying).await;
}
