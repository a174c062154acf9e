//! Attempts and their ends on a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lockkeeper::{Begun, ErrorKind, LossReason, RunError, fingerprint};
use lockkeeper_testkit::wait::until;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::common::{LEASE, begin, claim, idle, impatient, lost, record, replay, request, running, whole};
use crate::support::{SOON, calls, command, exists, keeper, ms, quiet, scripts, secs, server};

const KEY: &str = "once:server:k";

#[tokio::test]
async fn c1_c2_of_two_processes_one_runs_and_the_other_is_answered_its_result() {
    let Some(server) = server() else { return };
    let (one, other) = (keeper(&server).await, keeper(&server).await);
    let (once, others) = (one.once("server").unwrap(), other.once("server").unwrap());
    for round in 0..50 {
        let key = round.to_string();
        let (first, second) = tokio::join!(begin(&once, &key), begin(&others, &key));
        let (attempt, told) = match (first, second) {
            (Begun::Claimed(attempt), told) | (told, Begun::Claimed(attempt)) => (attempt, told),
            other => panic!("nobody runs: {other:?}"),
        };
        assert!(matches!(told, Begun::Running { attempt: 1, .. }), "{told:?}");
        let result = [key.as_bytes(), &[0, 0xff, b'\n'], "é".as_bytes()].concat();
        attempt.complete(lockkeeper::Stored::whole(result.clone()).unwrap()).await.unwrap();
        for once in [&once, &others] {
            let replay = replay(once, &key).await;
            assert!(replay.stored.is_whole() && replay.stored.bytes() == result);
        }
    }
}

#[tokio::test]
async fn c4_a_second_begin_changes_no_byte_of_the_first_ones_record() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let once = keeper.once("server").unwrap();
    let attempt = claim(&once, "k").await;
    let before = record(&server, KEY).unwrap();
    running(&once, "k").await;
    let different = once.begin("k", fingerprint::of_bytes("another")).await.unwrap();
    assert!(matches!(different, Begun::DifferentRequest));
    assert_eq!(record(&server, KEY).unwrap(), before);
    drop(attempt);
}

#[tokio::test]
async fn an_attempt_outlives_its_lease_by_renewals_and_none_comes_after_its_end() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let once = keeper.once("server").unwrap().lease(ms(900));
    let attempt = claim(&once, "k").await;
    let (started, writes) = (Instant::now(), || calls(&server, &["set"]));
    let asked = || scripts(&server);
    // One to claim it; two leases have six renewals.
    until("renewed six times", secs(20), async || writes() >= 7).await;
    assert!(started.elapsed() >= ms(1200) && attempt.is_valid(), "{:?}", started.elapsed());
    attempt.complete(whole("done")).await.unwrap();
    let undone = claim(&once, "undone").await;
    undone.abandon().await.unwrap();
    let before = asked();
    // Real time: two renewal intervals, in which nothing may come.
    tokio::time::sleep(ms(620)).await;
    assert_eq!(asked(), before, "renewed after its end");
    idle(&keeper, "at the end").await;
}

/// C40: the record is evicted under either policy. It is noticed by the next renewal, and never created again.
#[tokio::test]
async fn c40_an_evicted_claim_is_lost_and_not_created_again() {
    for policy in ["allkeys-lru", "volatile-lru"] {
        let Some(server) = server() else { return };
        let keeper = keeper(&server).await;
        let once = keeper.once("server").unwrap().lease(secs(1));
        let attempt = claim(&once, "k").await;
        command(&server, &["CONFIG", "SET", "maxmemory-policy", policy]);
        command(&server, &["CONFIG", "SET", "maxmemory-samples", "64"]);
        command(&server, &["CONFIG", "SET", "maxmemory", "5mb"]);
        let filling = "x".repeat(50_000);
        for number in 0..2000 {
            // A cache: it may be evicted too. Refused, where nothing is left to evict.
            _ = server.command(&["SET", &format!("cache:{number}"), &filling, "EX", "1000"]);
            if !exists(&server, KEY) {
                break;
            }
        }
        assert!(!exists(&server, KEY), "never evicted under {policy}");
        assert_eq!(lost(&attempt).await, LossReason::KeyGone);
        let error = attempt.complete(whole("late")).await.unwrap_err();
        assert!(error.is_lost(), "{error}");
        quiet(&keeper).await;
        assert!(!exists(&server, KEY), "created again");
    }
}

/// Those who were told that records may be evicted, by which policy.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Told {
    fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        if said.0.iter().any(|said| said == "once_may_be_evicted") {
            self.0.lock().push(said.0.join(" "));
        }
    }
}

#[derive(Default)]
struct Said(Vec<String>);

impl Visit for Said {
    fn record_debug(&mut self, _field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push(format!("{value:?}").replace('"', ""));
    }
}

/// C40: a keeper that makes use of records says at its start that they may be evicted, once; also one that connects later.
#[tokio::test]
async fn c40_a_server_that_may_evict_records_is_named_once() {
    let Some(server) = server() else { return };
    let told = Told::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(told.clone()));
    let is_told = || std::mem::take(&mut *told.0.lock());
    claim(&keeper(&server).await.once("server").unwrap(), "safe").await.abandon().await.unwrap();
    command(&server, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    claim(&keeper(&server).await.once("server").unwrap(), "safe").await.abandon().await.unwrap();
    assert!(is_told().is_empty(), "nothing is evicted, or nothing is full");
    command(&server, &["CONFIG", "SET", "maxmemory", "100mb"]);
    let evicting = keeper(&server).await;
    evicting.once("server").unwrap();
    let once = evicting.once("other").unwrap();
    claim(&once, "k").await.abandon().await.unwrap();
    assert_eq!(is_told(), ["once_may_be_evicted allkeys-lru"]);
    let lazy = lockkeeper::Keeper::builder().url(&server.url()).unwrap().lazy().connect().await.unwrap();
    let once = lazy.once("server").unwrap();
    assert!(is_told().is_empty(), "it has asked nobody yet");
    claim(&once, "k").await.abandon().await.unwrap();
    claim(&once, "k").await.abandon().await.unwrap();
    assert_eq!(is_told(), ["once_may_be_evicted allkeys-lru"]);
}

#[tokio::test]
async fn a_flushed_claim_is_lost_also_where_it_is_noticed_by_its_completion() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let once = keeper.once("server").unwrap();
    let attempt = claim(&once, "k").await;
    command(&server, &["FLUSHALL"]);
    let error = attempt.clone().complete(whole("late")).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("its record is gone"), "{error}");
    assert_eq!(attempt.loss(), Some(LossReason::KeyGone));
    assert!(!exists(&server, KEY), "created again");
}

/// C41: nothing begins on a server that is full, and says why; an end waits until there is room.
#[tokio::test]
async fn c41_a_full_server_begins_nothing_and_an_end_is_recorded_when_there_is_room() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let once = keeper.once("server").unwrap();
    let attempt = claim(&once, "k").await;
    let before = record(&server, KEY);
    command(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    let error = once.begin("other", request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused(lockkeeper::Refusal::OutOfMemory), "{error}");
    assert!(error.is_transient() && !exists(&server, "once:server:other"));
    let completing = tokio::spawn(attempt.complete(whole("done")));
    let errors =
        || command(&server, &["INFO", "errorstats"]).as_str().unwrap().contains("errorstat_OOM:count=1");
    until("refused, and tried again", SOON, async || errors()).await;
    assert!(!completing.is_finished());
    assert_eq!(record(&server, KEY), before, "no half of it");
    command(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    crate::common::ends(completing).await.unwrap();
    assert_eq!(replay(&once, "k").await.stored, whole("done"));
}

/// C43: the server comes back empty. The holder is told, and nothing is reported as recorded.
#[tokio::test]
async fn c43_a_server_that_was_restarted_empty_is_noticed_at_once() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let once = keeper.once("server").unwrap();
    let attempt = claim(&once, "k").await;
    until("the renewal connection stands", SOON, async || keeper.health().await.renewal_connected).await;
    server.restart().unwrap();
    let reason = tokio::time::timeout(LEASE / 3, attempt.lost()).await.expect("long before the lease ends");
    assert_eq!(reason, LossReason::KeyGone);
    let error = attempt.complete(whole("done")).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    assert!(!exists(&server, KEY));
}

/// C46: no key without an end, whenever its connections are killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c46_no_key_is_left_without_an_expiry_after_random_kills() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let once = keeper.once("server").unwrap().retain(secs(600));
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|caller| {
            let (once, is_over) = (once.clone(), is_over.clone());
            tokio::spawn(async move {
                for round in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let key = format!("{}", (round * 7 + caller) % 300);
                    match (once.begin(&key, request()).await, round % 3) {
                        (Ok(Begun::Claimed(attempt)), 0) => drop(attempt.abandon().await),
                        (Ok(Begun::Claimed(attempt)), 1) => drop(attempt.complete(whole("x")).await),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    for _ in 0..300 {
        // Only those of the keeper: this one is asked for by its own connection.
        _ = server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        tokio::time::sleep(ms(rand::random_range(1..8))).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    until("ended", secs(30), async || keeper.health().await.giving_back == 0).await;
    let keys = command(&server, &["KEYS", "*"]);
    let keys = keys.as_array().unwrap();
    assert!(keys.len() > 100, "{}", keys.len());
    for key in keys {
        let left = command(&server, &["PTTL", key.as_str().unwrap()]).as_int().unwrap();
        assert!(left > 0, "{key:?} has no end");
    }
}

#[tokio::test]
async fn a_key_that_holds_something_else_is_left_alone() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let once = keeper.once("server").unwrap();
    for spoil in [&["SET", KEY, "a session"][..], &["DEL", KEY], &["LPUSH", KEY, "a"]] {
        command(&server, spoil);
        if spoil[0] != "DEL" {
            let error = once.begin("k", request()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
        }
    }
    assert_eq!(command(&server, &["LLEN", KEY]).as_int(), Some(1));
    let ran: Result<u32, RunError<u32, String>> = once.run("k", &1, async |_| Ok(1)).await;
    assert!(matches!(ran, Err(RunError::Store(_))), "{ran:?}");
}

/// C47: the caller's clock decides nothing on a server either.
#[tokio::test]
async fn c47_a_keeper_whose_wall_clock_is_an_hour_ahead_takes_nothing_over() {
    let Some(server) = server() else { return };
    let ahead = lockkeeper::Keeper::builder().url(&server.url()).unwrap().clock(Arc::new(Ahead));
    let (ahead, right) = (ahead.connect().await.unwrap(), keeper(&server).await);
    let (early, once) = (ahead.once("server").unwrap(), right.once("server").unwrap());
    let attempt = claim(&once, "k").await;
    assert!(running(&early, "k").await <= LEASE);
    attempt.complete(whole("done")).await.unwrap();
    assert_eq!(replay(&early, "k").await.stored, whole("done"));
    let attempt = claim(&early, "other").await;
    assert!(running(&once, "other").await > LEASE / 2, "no late end either");
    assert!(attempt.is_valid());
}

/// This machine's clock, with a wall clock that somebody has set.
#[derive(Debug)]
struct Ahead;

impl lockkeeper::Clock for Ahead {
    fn uptime(&self) -> lockkeeper::core::Uptime {
        lockkeeper::SystemClock.uptime()
    }
    fn wall(&self) -> lockkeeper::core::Timestamp {
        lockkeeper::SystemClock.wall().after(secs(3600))
    }
}
