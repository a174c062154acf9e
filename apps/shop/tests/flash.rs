//! The flash sale as it is meant: ten thousand buyers, a hundred units, three server processes on one Redis and one database,
//! and one of the three is killed in the middle of it.
//!
//! Takes real time, about as long as ten thousand buyers need; nothing is asserted of how long.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod shopping;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_shop::buyers::{Crowd, Report, rush};
use lockkeeper_shop::database::Database;
use lockkeeper_shop::sale::{Mode, Sales, Sku, Stock};
use lockkeeper_testkit::wait::until;
use shopping::{Customer, Place, SOON, WIDE, memory_shop, words};

const BUYERS: u32 = 10_000;
const UNITS: u64 = 100;
const SERVERS: usize = 3;
const SAMPLE_PACE: Duration = Duration::from_millis(2);
/// A part of the units goes at once, and the others take some tenths of a second: long enough to be in the middle of.
const LIMITS: &str = "--sale-limit 800/s+burst=20 --buyer-limit 1000000/s";
const KILL_AT: u64 = 5;

/// A server in a process of its own. Killed when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(args: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper-shop"));
        command.arg("serve").args(words(args));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("listening on http://").unwrap_or_else(|| panic!("it said {line:?}"));
        Self { child, address: address.parse().unwrap() }
    }

    /// SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Looks at the stock again and again, and panics at the first moment at which it is wrong. Says how often it looked.
async fn watch(sales: Sales, sku: Sku, is_over: Arc<AtomicBool>) -> u64 {
    let mut samples = 0;
    while !is_over.load(Ordering::Relaxed) {
        let stock = sales.stock(&sku).await.unwrap();
        let Stock { initial, remaining, sold, written, in_transit, .. } = stock;
        assert!(remaining >= 0 && sold <= initial && written <= initial, "oversold: {stock:?}");
        let remaining = u64::try_from(remaining).unwrap();
        assert_eq!(sold + remaining + in_transit, initial, "a unit is lost, or there twice: {stock:?}");
        samples += 1;
        tokio::time::sleep(SAMPLE_PACE).await;
    }
    samples
}

fn show(name: &str, report: &Report) {
    println!("{name}: {}", serde_json::to_string_pretty(report).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_buyers_get_a_hundred_units_though_a_server_is_killed() {
    let Some(place) = Place::new() else { return };
    let args = place.args(&format!("{LIMITS} --stock {UNITS} --shards 4"));
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| Server::start(&args)).collect();
    let (keeper, database) = (
        Keeper::connect(&place.redis.url()).await.unwrap(),
        Database::open(&place.database()).await.unwrap(),
    );
    let (sales, sku) = (Sales::new(keeper, database, Mode::Protected), "lantern".parse::<Sku>().unwrap());
    let crowd = Crowd::new(servers.iter().map(|server| server.address).collect(), sku.clone());
    let crowd = Crowd { buyers: BUYERS, pace: SAMPLE_PACE, seed: 7, ..crowd };
    let is_over = Arc::new(AtomicBool::new(false));
    let watched = tokio::spawn(watch(sales.clone(), sku.clone(), is_over.clone()));
    let (mut victim, mut killed_at) = (Some(servers.remove(1)), None);
    let report = rush(crowd, |progress| {
        if progress.tickets >= KILL_AT
            && let Some(mut server) = victim.take()
        {
            server.kill();
            killed_at = Some(progress.tickets);
        }
    })
    .await;
    show("flash", &report);

    until("every ticket is an order", SOON, || async { sales.stock(&sku).await.unwrap().written == UNITS })
        .await;
    is_over.store(true, Ordering::Relaxed);
    let samples = watched.await.unwrap();
    println!(
        "flash: {samples} moments looked at; one of {SERVERS} servers killed when {killed_at:?} had a ticket"
    );
    assert!(samples > 20, "{samples}");
    assert!(killed_at.is_some_and(|tickets| tickets < UNITS), "killed in the middle: {killed_at:?}");

    let stock = sales.stock(&sku).await.unwrap();
    let Stock { initial, remaining, sold, written, .. } = stock;
    assert_eq!((initial, remaining, sold, written), (UNITS, 0, UNITS, UNITS), "{stock:?}");
    assert_eq!((report.tickets, report.distinct_tickets, report.contradictions), (UNITS, UNITS, 0));
    assert_eq!(
        (report.ends["bought"], report.ends["sold-out"]),
        (UNITS, u64::from(BUYERS) - UNITS),
        "{:?}",
        report.ends
    );
    let reconciled = sales.reconcile(&sku).await.unwrap();
    assert!(reconciled.is_clean(), "{reconciled:?}");
    assert_one_each(&servers[0], &sales, &sku).await;
}

/// Every buyer's outcome, asked one by one: no ticket twice, and exactly as many as there were units.
async fn assert_one_each(server: &Server, sales: &Sales, sku: &Sku) {
    let mut tickets = HashSet::new();
    for number in 0..BUYERS {
        let buyer = format!("buyer-{number}").parse().unwrap();
        match sales.outcome(sku, &buyer).await.unwrap() {
            lockkeeper_shop::sale::Outcome::Ordered(ticket) => assert!(tickets.insert(ticket.to_string())),
            lockkeeper_shop::sale::Outcome::None => {}
            other => panic!("{buyer}: {other:?}"),
        }
    }
    assert_eq!(tickets.len() as u64, UNITS);
    let late = Customer::at(server.address).click("lantern", "too-late").await;
    assert_eq!(late.refusal(), (410, "sold-out".into()));
}

#[tokio::test]
async fn buyers_with_bad_habits_report_what_they_saw() {
    let shop = memory_shop(&format!("{WIDE} --stock 20")).await;
    let crowd = Crowd::new(vec![shop.address()], "lantern".parse().unwrap());
    let crowd = Crowd { buyers: 300, double_clicks: 0.5, lost_replies: 0.3, seed: 1, ..crowd };
    let mut last = None;
    let report = rush(crowd, |progress| last = Some(progress)).await;
    assert_eq!((report.ends["bought"], report.ends["sold-out"]), (20, 280), "{report:?}");
    assert_eq!((report.tickets, report.distinct_tickets, report.contradictions), (20, 20, 0));
    let tally = shop.shop().tally();
    assert_eq!(tally.accepted(), 20);
    assert!(report.answers["accepted"] <= 20 && report.answers["left-before-the-answer"] > 0, "{report:?}");
    let last = last.unwrap();
    assert_eq!((last.finished, last.requests), (300, report.requests));
    assert_eq!(report.answers.values().sum::<u64>(), report.requests, "every request is accounted for");
    shop.stop().await;
}

#[tokio::test]
async fn a_crowd_goes_home_when_the_time_is_up_and_when_there_is_nobody_to_sell() {
    let shop = memory_shop("--sale-limit 1/h").await;
    let crowd = Crowd::new(vec![shop.address()], "lantern".parse().unwrap());
    let crowd = Crowd { buyers: 50, lost_replies: 0.0, within: Duration::from_millis(300), ..crowd };
    let report = rush(crowd.clone(), |_| ()).await;
    assert!(report.ends["unfinished"] >= 49 && report.seconds < 5.0, "{report:?}");
    assert_eq!(report.ends.values().sum::<u64>(), 50);
    shop.stop().await;
    let report = rush(Crowd { tries: 3, within: SOON, ..crowd }, |_| ()).await;
    assert_eq!((report.ends["gave-up"], report.tickets), (50, 0), "{report:?}");
}
