//! Several processes on one server: exactly as many are let through as were promised.
//!
//! The test starts itself again as the other processes; see `crowd_child`.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockkeeper::{Keeper, Limiter};
use lockkeeper_faults::RedisServer;
use support::{command, secs, server};

const PROCESSES: usize = 3;
/// Callers per process; 51 in all.
const CALLERS: usize = 17;
const ROUNDS: usize = 100;
/// Pinned inside one window: no test runs into the next one, and no token comes back.
const LIMITS: [&str; 5] = [
    "5/50y fixed-window",
    "5/50y fixed-window-from-first",
    "5/50y sliding-log",
    "5/50y sliding-counter",
    "5/50y token-bucket",
];

/// A child of this test, which runs `name` with these variables.
fn child(name: &str, variables: &[(&str, String)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).stdout(Stdio::piped());
    command.envs(variables.iter().map(|(name, value)| (*name, value.clone())));
    command.spawn().unwrap()
}

/// The numbers that children printed as `name=number`, added up by name.
fn sums(children: Vec<Child>) -> HashMap<String, u64> {
    let mut sums = HashMap::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        for (name, number) in text.lines().filter_map(|line| line.rsplit_once('=')) {
            if let Ok(number) = number.parse::<u64>() {
                *sums.entry(name.to_owned()).or_default() += number;
            }
        }
    }
    sums
}

async fn child_keeper() -> Option<Keeper> {
    let url = std::env::var("LOCKKEEPER_CROWD_URL").ok()?;
    Some(Keeper::connect(&url).await.unwrap())
}

#[test]
fn r41_fifty_callers_of_several_processes_on_five_let_exactly_five_through_a_hundred_times() {
    let Some(server) = server() else { return };
    let url = ("LOCKKEEPER_CROWD_URL", server.url());
    let children = (0..PROCESSES).map(|_| child("crowd_child", std::slice::from_ref(&url))).collect();
    let granted = sums(children);
    assert_eq!(granted.len(), LIMITS.len() * ROUNDS);
    let wrong: Vec<_> = granted.iter().filter(|(_, granted)| **granted != 5).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[tokio::test]
#[ignore = "a child of the test above"]
async fn crowd_child() {
    let Some(keeper) = child_keeper().await else { return };
    for (at, limit) in LIMITS.iter().enumerate() {
        let limiter = keeper.limiter("crowd", *limit).unwrap().decide_within(secs(20));
        for round in 0..ROUNDS {
            let subject = format!("{at}.{round}");
            // Nobody begins before all are there.
            meet(&keeper, &subject).await;
            let verdicts = join_all((0..CALLERS).map(|_| limiter.check(subject.as_str()))).await;
            let granted: u64 = verdicts.into_iter().map(|verdict| verdict.unwrap().granted()).sum();
            println!("\n{subject}={granted}");
        }
    }
}

/// Waits until every process has come to `place`.
async fn meet(keeper: &Keeper, place: &str) {
    let store = keeper.redis_store().unwrap();
    let key = format!("meeting:{place}");
    let mut here: u64 = store.query(&["INCR", &key], secs(20)).await.unwrap();
    let started = Instant::now();
    while here < PROCESSES as u64 {
        assert!(started.elapsed() < secs(60), "the others did not come");
        here =
            store.query::<Option<String>>(&["GET", &key], secs(20)).await.unwrap().unwrap().parse().unwrap();
    }
}

const LEASED_LIMIT: u64 = 10_000;

#[test]
fn r133_two_processes_with_leases_admit_the_limit_and_not_one_more() {
    let Some(server) = server() else { return };
    // A window that ended meanwhile would begin another: from the first call, and long.
    let variables = [("LOCKKEEPER_CROWD_URL", server.url())];
    let children = vec![child("leased_child", &variables), child("leased_child", &variables)];
    let admitted = sums(children)["admitted"];
    assert!(admitted <= LEASED_LIMIT, "{admitted} of {LEASED_LIMIT}");
    assert!(admitted >= LEASED_LIMIT * 99 / 100, "{admitted} of {LEASED_LIMIT}");
    assert_charged(&server, LEASED_LIMIT);
}

/// What the server counts is never more than the limit.
fn assert_charged(server: &RedisServer, most: u64) {
    let keys = command(server, &["KEYS", "limit:leased:*"]);
    let key = keys.as_array().unwrap()[0].as_str().unwrap().to_owned();
    let state = command(server, &["GET", &key]);
    let used: u64 = state.as_str().unwrap().rsplit_once(':').unwrap().1.parse().unwrap();
    assert!(used <= most, "{used}");
}

#[tokio::test]
#[ignore = "a child of the test above"]
async fn leased_child() {
    let Some(keeper) = child_keeper().await else { return };
    meet_two(&keeper).await;
    let limiter = keeper.limiter("leased", "10000/1h fixed-window-from-first").unwrap();
    let limiter: Limiter = limiter.decide_within(secs(20));
    let leased = limiter.leased().unwrap();
    let (mut admitted, mut refused) = (0u64, 0u32);
    let ends = Instant::now() + Duration::from_secs(30);
    // Until nothing has come for a while: what the other one lets go comes back within a second.
    while refused < 30 && Instant::now() < ends {
        let verdict = leased.check("u").await.unwrap();
        admitted += verdict.granted();
        refused = if verdict.is_allowed() { 0 } else { refused + 1 };
        if refused > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    keeper.close(secs(5)).await;
    println!("\nadmitted={admitted}");
}

async fn meet_two(keeper: &Keeper) {
    let store = keeper.redis_store().unwrap();
    let mut here: u64 = store.query(&["INCR", "meeting:leased"], secs(20)).await.unwrap();
    while here < 2 {
        here = store.query::<String>(&["GET", "meeting:leased"], secs(20)).await.unwrap().parse().unwrap();
    }
}
