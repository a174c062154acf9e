//! Permits on a real server: never more than the limit, and what is left when servers, holders and callers go away.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::time::{Duration, Instant};

use lockkeeper::core::{Clock, Uptime};
use lockkeeper::{AcquiredPermit, Concurrency, ErrorKind, Keeper, LossReason, Permit, Released, SystemClock};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::drops::drop_at_every_poll;
use lockkeeper_testkit::wait::until;
use support::{SOON, calls, command, exists, keeper, ms, quiet, secs, server};

const KEY: &str = "lock:~permit:{lock:a}";

/// A compensation ends when the abandoned request's time has passed; a short limit keeps the tests short.
async fn impatient(server: &RedisServer) -> Keeper {
    Keeper::builder().url(&server.url()).unwrap().response_timeout(ms(300)).connect().await.unwrap()
}

async fn permit(limit: &Concurrency) -> Permit {
    limit.acquire().await.unwrap().or_full().unwrap()
}

/// Nothing held, waited for or being given back, and no key.
async fn nothing_left(server: &RedisServer, keeper: &Keeper, when: String) {
    until(&format!("nothing is left {when}"), SOON, async || {
        let health = keeper.health().await;
        health.permits + health.waiting + health.giving_back == 0 && !exists(server, KEY)
    })
    .await;
}

/// The most that overlap. Touching is none.
fn most_at_once(sections: &[(Uptime, Uptime)]) -> i32 {
    let ends = sections.iter().map(|(_, left)| (*left, -1));
    let mut changes: Vec<(Uptime, i32)> =
        sections.iter().map(|(entered, _)| (*entered, 1)).chain(ends).collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r37_fifty_callers_of_two_keepers_are_never_more_than_five_at_once() {
    let Some(server) = server() else { return };
    let keepers = [keeper(&server).await, keeper(&server).await];
    let callers: Vec<_> = (0..50)
        .map(|number: usize| {
            let limit = keepers[number % 2].concurrency("a", 5).unwrap().lease(secs(10)).wait(secs(60));
            tokio::spawn(async move {
                let mut sections = Vec::new();
                for round in 0..4 {
                    let held = permit(&limit).await;
                    let entered = SystemClock.uptime();
                    tokio::time::sleep(ms(1 + (number as u64 + round) % 4)).await;
                    assert!(held.is_valid());
                    sections.push((entered, SystemClock.uptime()));
                    // By hand and by dropping.
                    if round % 2 == 0 {
                        assert_eq!(held.release().await.unwrap(), Released::Released);
                    }
                }
                sections
            })
        })
        .collect();
    let mut sections = Vec::new();
    for caller in callers {
        sections.extend(caller.await.unwrap());
    }
    assert_eq!(sections.len(), 200);
    assert_eq!(most_at_once(&sections), 5, "all five are used, and no sixth");
    for keeper in &keepers {
        nothing_left(&server, keeper, "at the end".to_owned()).await;
    }
}

/// Its process ends without a word: no renewal, no release.
#[tokio::test]
async fn a_killed_holders_permit_is_back_after_its_lease_and_not_before() {
    let Some(server) = server() else { return };
    let url = server.url();
    let lease = ms(800);
    let taken = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let taken = runtime.block_on(async {
            let keeper = Keeper::builder().url(&url).unwrap().on_current_runtime().connect().await.unwrap();
            let limit = keeper.concurrency("a", 1).unwrap().lease(lease);
            // Until here the server cannot have granted it, so the lease ends no earlier than this and its length.
            let taken = Instant::now();
            std::mem::forget((permit(&limit).await, keeper));
            taken
        });
        runtime.shutdown_background();
        taken
    });
    let taken = taken.join().unwrap();
    let keeper = keeper(&server).await;
    let limit = keeper.concurrency("a", 1).unwrap().wait(secs(10));
    let AcquiredPermit::Full(full) = limit.try_acquire().await.unwrap() else { panic!("let in") };
    assert!(full.retry_after <= lease && full.held == 1, "{full:?}");
    assert!(permit(&limit).await.is_valid());
    let waited = taken.elapsed();
    assert!(waited >= lease && waited < lease + secs(2), "{waited:?}");
}

#[tokio::test]
async fn a_permit_outlives_its_lease_by_renewals_on_a_connection_of_their_own() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let held = permit(&keeper.concurrency("a", 1).unwrap().lease(ms(900))).await;
    let (started, writes) = (Instant::now(), || calls(&server, &["zadd"]));
    // One to take it; two leases have six renewals.
    until("renewed six times", secs(20), async || writes() >= 7).await;
    assert!(started.elapsed() >= ms(1200), "{:?}", started.elapsed());
    assert!(held.is_valid() && held.loss().is_none());
    assert_eq!(held.release().await.unwrap(), Released::Released);
    nothing_left(&server, &keeper, "after the release".to_owned()).await;
    let before = writes();
    // Real time: two renewal intervals, in which nothing may come.
    tokio::time::sleep(ms(620)).await;
    assert_eq!(writes(), before, "renewed after the release");
}

/// The server is stopped for longer than the lease: the holder knows in time, before anybody else can be let in.
#[tokio::test]
async fn a_stopped_server_costs_the_permit_and_the_holder_is_told_in_time() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server).await;
    let lease = ms(900);
    let limit = keeper.concurrency("a", 1).unwrap().lease(lease);
    let held = permit(&limit).await;
    server.pause().unwrap();
    let stopped = Instant::now();
    let reason = tokio::time::timeout(secs(10), held.lost()).await.unwrap();
    // No renewal was sent after the stop and answered, so no lease runs for longer than this.
    assert!(stopped.elapsed() < lease, "{:?}", stopped.elapsed());
    assert!(matches!(reason, LossReason::NotRenewed(_)), "{reason:?}");
    let cancelled = limit.clone().wait(Duration::ZERO).run(async |_| ()).await.unwrap_err();
    assert!(cancelled.is_transient(), "{cancelled}");
    server.resume().unwrap();
    drop(held);
    let next = permit(&limit.wait(secs(10))).await;
    assert!(next.is_valid());
    next.release().await.unwrap();
    quiet(&keeper).await;
    nothing_left(&server, &keeper, "after the stop".to_owned()).await;
}

#[tokio::test]
async fn work_is_cancelled_when_its_permit_is_lost() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server).await;
    let limit = keeper.concurrency("a", 1).unwrap().lease(ms(600));
    let error = limit
        .run(async |_permit| {
            server.pause().unwrap();
            std::future::pending::<()>().await;
        })
        .await
        .unwrap_err();
    server.resume().unwrap();
    assert!(error.is_lost(), "{error}");
    nothing_left(&server, &keeper, "after the loss".to_owned()).await;
}

/// L2 for permits: what a stopped server was sent takes nothing for callers who left.
#[tokio::test]
async fn an_acquire_without_an_answer_is_given_back() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server).await;
    let limit = keeper.concurrency("a", 2).unwrap();
    permit(&limit).await.release().await.unwrap();
    for stopped_for in [ms(0), ms(400)] {
        server.pause().unwrap();
        let error = limit.try_acquire().await.unwrap_err();
        assert!(error.is_outcome_unknown() || error.kind() == ErrorKind::Unreachable, "{error}");
        // Real time: with a stop beyond the request's limit, its "not after" has passed when the server goes on.
        tokio::time::sleep(stopped_for).await;
        server.resume().unwrap();
        nothing_left(&server, &keeper, format!("after a stop for {stopped_for:?} more")).await;
    }
    let both = (permit(&limit).await, permit(&limit).await);
    assert!(both.0.is_valid() && both.1.is_valid());
}

/// It was sent and dropped, and the server takes it afterwards.
#[tokio::test]
async fn an_acquire_that_was_dropped_in_flight_is_given_back() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limit = keeper.concurrency("a", 1).unwrap();
    permit(&limit).await.release().await.unwrap();
    let taken = || calls(&server, &["zadd"]);
    let before = taken();
    server.pause().unwrap();
    // Real time, to be written to the connection; the request's own limit is 2 s.
    let dropped = tokio::time::timeout(ms(100), limit.try_acquire()).await;
    server.resume().unwrap();
    assert!(dropped.is_err(), "a stopped server answers nothing");
    until("taken by the server", SOON, async || taken() > before).await;
    nothing_left(&server, &keeper, "of a dropped request".to_owned()).await;
}

/// The holder learns of it from the reconnection, long before a third of its lease has passed.
#[tokio::test]
async fn a_server_that_was_restarted_empty_is_noticed_at_once() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limit = keeper.concurrency("a", 1).unwrap().lease(secs(60));
    let held = permit(&limit).await;
    until("a sign of life", SOON, async || {
        calls(&server, &["time"]) > 1 && keeper.health().await.renewal_connected
    })
    .await;
    server.kill().unwrap();
    assert!(held.is_valid(), "its lease may still be kept");
    let waiting = tokio::spawn({
        let limit = limit.clone();
        async move { limit.acquire().await }
    });
    server.restart().unwrap();
    assert_eq!(tokio::time::timeout(secs(10), held.lost()).await.unwrap(), LossReason::KeyGone);
    let next = waiting.await.unwrap().unwrap().or_full().unwrap();
    assert_eq!(held.release().await.unwrap(), Released::Expired);
    assert!(next.is_valid() && limit.holders().await.unwrap().len() == 1);
}

#[tokio::test]
async fn scripts_are_loaded_again_after_they_were_flushed() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limit = keeper.concurrency("a", 1).unwrap().lease(ms(300));
    for _ in 0..2 {
        let held = permit(&limit).await;
        command(&server, &["SCRIPT", "FLUSH"]);
        let before = calls(&server, &["zadd"]);
        until("renewed", SOON, async || calls(&server, &["zadd"]) > before).await;
        command(&server, &["SCRIPT", "FLUSH"]);
        assert_eq!(limit.holders().await.unwrap().len(), 1);
        assert_eq!(held.release().await.unwrap(), Released::Released);
    }
    permit(&limit).await.release().await.unwrap();
    let before = calls(&server, &["eval", "evalsha"]);
    permit(&limit).await.release().await.unwrap();
    assert_eq!(calls(&server, &["eval", "evalsha"]) - before, 2, "acquire and release are one call each");
}

#[tokio::test]
async fn l77_what_is_not_a_set_of_permits_is_left_alone() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    command(&server, &["SET", KEY, "x"]);
    let limit = keeper.concurrency("a", 1).unwrap();
    for error in [limit.acquire().await.unwrap_err(), limit.holders().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
        assert!(error.to_string().contains("not a set of permits"), "{error}");
    }
    assert_eq!(command(&server, &["GET", KEY]).as_str(), Some("x"));
    // It becomes something else while it is held: lost at the end of the lease, and untouched.
    command(&server, &["DEL", KEY]);
    let held = permit(&limit.lease(ms(300))).await;
    command(&server, &["SET", KEY, "x"]);
    let reason = held.lost().await;
    assert!(matches!(&reason, LossReason::NotRenewed(why) if why.contains("something else")), "{reason:?}");
    drop(held);
    assert_eq!(command(&server, &["GET", KEY]).as_str(), Some("x"));
}

#[tokio::test]
async fn l13_the_key_is_a_sorted_set_that_goes_with_its_last_lease_and_is_no_lock() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limit = keeper.concurrency("a", 2).unwrap();
    let (_short, _long) =
        (permit(&limit.clone().lease(secs(5))).await, permit(&limit.clone().lease(secs(20))).await);
    let left = command(&server, &["PTTL", KEY]).as_int().unwrap();
    assert!((15_000..=20_001).contains(&left), "{left}");
    assert_eq!(command(&server, &["ZCARD", KEY]).as_int(), Some(2));
    assert!(keeper.list(None).await.unwrap().locks.is_empty(), "permits are no locks");
    assert!(keeper.inspect("a").await.unwrap().holder.is_none());
}

#[tokio::test]
async fn acquiring_may_be_dropped_at_every_poll() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server).await;
    let limit = keeper.concurrency("a", 2).unwrap();
    let polls = drop_at_every_poll(
        || limit.try_acquire(),
        async |polls, output| {
            drop(output);
            nothing_left(&server, &keeper, format!("after {polls} polls")).await;
        },
    )
    .await;
    assert!(polls >= 2, "it was dropped in flight at least once");
    drop_at_every_poll(
        || limit.run(async |_permit| tokio::time::sleep(ms(5)).await),
        async |polls, _| nothing_left(&server, &keeper, format!("after {polls} polls of run")).await,
    )
    .await;
}

#[tokio::test]
async fn waiting_may_be_dropped_at_every_poll() {
    let Some(server) = server() else { return };
    let (keeper, other) = (impatient(&server).await, impatient(&server).await);
    let (limit, theirs) = (keeper.concurrency("a", 1).unwrap(), other.concurrency("a", 1).unwrap());
    let polls = drop_at_every_poll(
        || async {
            let holder = permit(&theirs).await;
            // The first one polls, the second one stands behind it.
            let (front, behind) = (limit.clone().wait(ms(250)), limit.clone().wait(ms(150)));
            let result = tokio::join!(front.acquire(), behind.acquire());
            drop(holder);
            result
        },
        async |polls, output| {
            if let Some((front, behind)) = output {
                assert!(matches!(front.unwrap(), AcquiredPermit::Full(_)));
                assert!(matches!(behind.unwrap(), AcquiredPermit::Full(_)));
            }
            nothing_left(&server, &keeper, format!("after {polls} polls")).await;
            nothing_left(&server, &other, format!("after {polls} polls, of the other keeper")).await;
        },
    )
    .await;
    assert!(polls >= 4, "{polls}");
}

#[tokio::test]
async fn releasing_and_looking_may_be_dropped_at_every_poll() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server).await;
    let limit = keeper.concurrency("a", 20).unwrap();
    let mut permits = Vec::new();
    for _ in 0..20 {
        permits.push(permit(&limit).await);
    }
    drop_at_every_poll(|| limit.holders(), async |_, _| assert_eq!(limit.holders().await.unwrap().len(), 20))
        .await;
    // Clones stay: releasing one is enough.
    let _clones = permits.clone();
    let mut left = permits.len();
    drop_at_every_poll(
        || permits.pop().unwrap().release(),
        async |polls, _| {
            // A release that was never polled is none, while a clone is there.
            left -= polls.min(1);
            let held = async || limit.holders().await.unwrap().len();
            until(&format!("released after {polls} polls"), SOON, async || held().await == left).await;
        },
    )
    .await;
    let one = permits.pop().unwrap();
    drop_at_every_poll(
        || async { drop(tokio::time::timeout(ms(5), one.lost()).await) },
        async |_, _| assert!(one.is_valid()),
    )
    .await;
}
