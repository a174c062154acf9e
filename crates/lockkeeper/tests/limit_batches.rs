//! Checks that go together on a real server: who is sent with whom, and what those who wait are told.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::time::Instant;

use futures_util::future::join_all;
use lockkeeper::{Error, ErrorKind, Keeper, Verdict};
use lockkeeper_testkit::drops::{drop_at_every_poll, poll_times};
use lockkeeper_testkit::wait::until;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use support::{PATIENT, SOON, command, keeper, ms, only_key, proxied, remaining, scripts, secs, server};

/// Those who come while one is under way go together, in their order, and a refused one does not stand in the way of a
/// smaller one behind it.
#[tokio::test]
async fn checks_go_together_and_are_decided_one_by_one() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let limiter = keeper.limiter("hot", "605/h").unwrap().decide_within(PATIENT).exact();
    assert!(limiter.check("warm").await.unwrap().is_allowed());
    let before = scripts(&server);
    proxy.hold_requests();
    let costs: Vec<u64> = [1].into_iter().chain([1; 600]).chain([100, 2, 3, 2]).collect();
    let all = tokio::spawn({
        let limiter = limiter.clone();
        async move { join_all(costs.into_iter().map(|cost| limiter.check_cost("u", cost))).await }
    });
    until("it is under way", SOON, async || proxy.stats().kept_request_bytes > 0).await;
    proxy.release();
    let verdicts: Vec<Verdict> = all.await.unwrap().into_iter().map(Result::unwrap).collect();
    let granted: Vec<u64> = verdicts.iter().map(Verdict::granted).collect();
    assert!(granted[..601].iter().all(|granted| *granted == 1));
    assert_eq!(granted[601..], [0, 2, 0, 2], "100 is refused, 2 fits, then 3 is refused, 2 fits");
    assert_eq!(verdicts[600].remaining(), 4, "each knows what was left after it");
    assert_eq!(scripts(&server) - before, 3, "one by itself, 512 together, and the rest");
}

#[tokio::test]
async fn who_goes_away_before_being_sent_is_not_charged_and_after_it_is() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT).exact();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    proxy.hold_requests();
    let first = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.check("u").await }
    });
    until("it is under way", SOON, async || proxy.stats().kept_request_bytes > 0).await;
    let mut waits: Vec<_> = (0..10).map(|_| Box::pin(limiter.check("u"))).collect();
    for check in &mut waits {
        assert!(poll_times(check.as_mut(), 1).await.is_none());
    }
    waits.truncate(4);
    // The one that was sent goes away as well: it is charged, and those behind it are sent all the same.
    first.abort();
    proxy.release();
    assert!(join_all(waits).await.into_iter().all(|verdict| verdict.unwrap().is_allowed()));
    assert_eq!(remaining(&limiter, "u").await, 100 - 1 - 1 - 4);
}

/// Invariant 8: dropped at any moment, a check leaves no line behind that nobody drives.
#[tokio::test]
async fn dropping_a_check_at_every_poll_blocks_nobody() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "1000000/h").unwrap().decide_within(PATIENT);
    drop_at_every_poll(
        || limiter.check("u"),
        async |polls, _output| {
            let next = tokio::time::timeout(SOON, limiter.check("u")).await;
            assert!(next.unwrap().unwrap().is_allowed(), "after {polls} polls");
        },
    )
    .await;
}

/// A reply that is lost is unknown to each member, and nothing is sent twice.
#[tokio::test]
async fn a_lost_reply_is_unknown_to_all_and_charged_once() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(secs(4)).exact();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    proxy.hold_replies();
    let all = tokio::spawn({
        let limiter = limiter.clone();
        async move { join_all((0..3).map(|_| limiter.check("u"))).await }
    });
    until("it is under way", SOON, async || proxy.stats().kept_reply_bytes > 0).await;
    proxy.cut_connections();
    proxy.release();
    let results = all.await.unwrap();
    assert!(results[0].as_ref().is_err_and(lockkeeper::Error::is_outcome_unknown), "{:?}", results[0]);
    let answered = results.iter().filter(|result| result.is_ok()).count() as u64;
    let direct = support::keeper(&server).await.limiter("hot", "100/h").unwrap();
    assert_eq!(remaining(&direct, "u").await, 100 - 1 - 1 - answered);
}

/// And where those who went together have no answer, it is unknown to each of them.
#[tokio::test]
async fn a_lost_reply_to_several_is_unknown_to_each_of_them() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT);
    assert!(limiter.check("u").await.unwrap().is_allowed());
    let before = scripts(&server);
    proxy.hold_replies();
    let mut first = Box::pin(limiter.check("u"));
    let mut behind: Vec<_> = (0..3).map(|_| Box::pin(limiter.check("u"))).collect();
    for check in std::iter::once(&mut first).chain(&mut behind) {
        assert!(poll_times(check.as_mut(), 1).await.is_none());
    }
    until("the first one was decided", SOON, async || scripts(&server) == before + 1).await;
    drop(first);
    until("both calls were decided", SOON, async || scripts(&server) == before + 2).await;
    proxy.cut_connections();
    proxy.release();
    for result in join_all(behind).await {
        assert!(result.as_ref().is_err_and(Error::is_outcome_unknown), "{result:?}");
    }
    let direct = support::keeper(&server).await.limiter("hot", "100/h").unwrap();
    assert_eq!(remaining(&direct, "u").await, 100 - 1 - 1 - 3, "charged once");
}

/// The line for one key has an end. Who finds no place in it is sent alone, and nobody is refused for that.
#[tokio::test]
async fn who_finds_the_line_full_is_sent_alone() {
    const LINE: usize = 16 * 512;
    const BEYOND: usize = 20;
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let limiter = keeper.limiter("hot", "100000/h").unwrap().decide_within(secs(60)).exact();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    let before = scripts(&server);
    proxy.hold_requests();
    let all = tokio::spawn({
        let limiter = limiter.clone();
        async move { join_all((0..1 + LINE + BEYOND).map(|_| limiter.check("u"))).await }
    });
    until("it is under way", SOON, async || proxy.stats().kept_request_bytes > 0).await;
    proxy.release();
    assert!(all.await.unwrap().into_iter().all(|verdict| verdict.unwrap().is_allowed()));
    assert_eq!(scripts(&server) - before, 1 + 16 + BEYOND as u64);
}

/// What calls to the server were like is told: how many checks each had, and what it repaired.
#[tokio::test]
async fn batch_sizes_and_repairs_are_counted() {
    let recorder = DebuggingRecorder::new();
    let _local = metrics::set_default_local_recorder(&recorder);
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("told", "2/h").unwrap().decide_within(PATIENT).exact();
    let verdicts = join_all((0..4).map(|_| limiter.check("u"))).await;
    assert!(verdicts.into_iter().all(|verdict| verdict.is_ok()));
    let key = only_key(&server, "limit:told:*");
    assert_eq!(command(&server, &["PERSIST", &key]).as_int(), Some(1));
    assert!(!limiter.check("u").await.unwrap().is_allowed());
    assert!(command(&server, &["PTTL", &key]).as_int().unwrap() > 0);
    // A refund repairs as well, and says so.
    assert_eq!(command(&server, &["PERSIST", &key]).as_int(), Some(1));
    limiter.refund("u", 1).await.unwrap();
    assert!(command(&server, &["PTTL", &key]).as_int().unwrap() > 0);
    let seen = recorder.snapshotter().snapshot().into_vec();
    let of = |name: &str| {
        let is_it =
            |key: &metrics::Key| key.name() == name && key.labels().any(|label| label.value() == "told");
        seen.iter().find(|(key, ..)| is_it(key.key())).map(|(.., value)| value).unwrap()
    };
    assert_eq!(
        of("redis_limit_batch_size"),
        &DebugValue::Histogram(vec![1.0.into(), 3.0.into(), 1.0.into()])
    );
    assert_eq!(of("redis_limit_repairs_total"), &DebugValue::Counter(2));
}

/// However many wait for one key, an outage costs each of them two calls' time at most.
#[tokio::test]
async fn a_long_line_does_not_wait_for_one_silent_call_after_another() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100000/h").unwrap().decide_within(secs(1)).exact();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    server.pause().unwrap();
    let started = Instant::now();
    let all = join_all((0..4000).map(|_| limiter.check("u"))).await;
    let took = started.elapsed();
    server.resume().unwrap();
    let unsent = all
        .iter()
        .filter(|result| result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unreachable));
    assert!(all.iter().all(Result::is_err) && unsent.count() >= 4000 - 1 - 512);
    assert!(took < secs(2), "{took:?}; eight calls would take four seconds");
}

/// The one whose turn it was to send ends with its runtime: those behind it are told, and the next one is sent.
#[tokio::test]
async fn a_runtime_that_ends_takes_nobody_else_with_it() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT).exact();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    let waits = || {
        let limiter = limiter.clone();
        Box::pin(async move { limiter.check("u").await })
    };
    let told = async |check| {
        let result: Result<Verdict, Error> = tokio::time::timeout(SOON, check).await.unwrap();
        result.unwrap_err()
    };

    // Dropped where no runtime is.
    proxy.hold_requests();
    let (mut first, mut behind) = (waits(), waits());
    assert!(poll_times(first.as_mut(), 1).await.is_none());
    assert!(poll_times(behind.as_mut(), 1).await.is_none());
    std::thread::spawn(move || drop(first)).join().unwrap();
    assert_eq!(told(behind).await.kind(), ErrorKind::Unreachable, "it was not sent");
    proxy.release();
    assert!(limiter.check("u").await.unwrap().is_allowed());

    // Its runtime drives the next ones, and ends before they are answered.
    let other = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    until("nothing is kept", SOON, async || proxy.stats().kept_request_bytes == 0).await;
    proxy.hold_requests();
    let first = other.spawn(waits());
    until("it is under way", SOON, async || proxy.stats().kept_request_bytes > 0).await;
    let mut behind = waits();
    assert!(poll_times(behind.as_mut(), 1).await.is_none());
    let before = proxy.stats().kept_request_bytes;
    first.abort();
    until("the next one is under way", SOON, async || proxy.stats().kept_request_bytes > before).await;
    let mut last = waits();
    assert!(poll_times(last.as_mut(), 1).await.is_none());
    other.shutdown_background();
    assert!(told(behind).await.is_outcome_unknown(), "it was sent");
    assert_eq!(told(last).await.kind(), ErrorKind::Unreachable, "it was not");
    proxy.release();
    assert!(limiter.check("u").await.unwrap().is_allowed());
}

/// Nor does a server that answers slowly, and a line of many calls, hold anybody for longer than was promised.
#[tokio::test]
async fn a_long_line_at_a_slow_server_is_decided_in_time() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let limiter = keeper.limiter("hot", "100000/h").unwrap().decide_within(secs(2)).exact();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    proxy.slow(ms(350));
    let started = Instant::now();
    let all = join_all((0..4000).map(|_| limiter.check("u"))).await;
    let took = started.elapsed();
    assert!(all[..513].iter().all(Result::is_ok), "those who go in time are answered: {:?}", all[512]);
    assert!(
        all[4000 - 512..].iter().all(|result| result.as_ref().is_err_and(lockkeeper::Error::is_transient))
    );
    assert!(took < secs(4), "{took:?}; nine calls would take 6.3 s");
}

/// Three calls without an answer open the circuit, not three callers.
#[tokio::test]
async fn those_who_go_together_are_one_silent_call() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(ms(100)).exact();
    let patient = limiter.clone().decide_within(PATIENT);
    assert!(patient.check("u").await.unwrap().is_allowed());
    server.pause().unwrap();
    let silent = join_all((0..50).map(|_| limiter.check("u"))).await;
    assert!(silent.iter().all(Result::is_err));
    server.resume().unwrap();
    assert!(patient.check("v").await.unwrap().is_allowed(), "two calls were silent");
}

/// A keeper outlives a runtime; who waits on another one is told, and the next one is answered.
#[test]
fn a_runtime_that_ends_with_checks_under_way_leaves_no_line_behind() {
    let Some(server) = server() else { return };
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let limiter = first.block_on(async {
        let limiter = keeper(&server).await.limiter("hot", "100/h").unwrap().decide_within(secs(60)).exact();
        assert!(limiter.check("u").await.unwrap().is_allowed());
        limiter
    });
    server.pause().unwrap();
    let under_way = |runtime: &tokio::runtime::Runtime| {
        let limiter = limiter.clone();
        let mut check = Box::pin(async move { limiter.check("u").await });
        assert!(runtime.block_on(poll_times(check.as_mut(), 1)).is_none());
        runtime.spawn(check)
    };
    for _ in 0..3 {
        drop(under_way(&first));
    }
    let elsewhere = under_way(&second);
    drop(first);
    server.resume().unwrap();
    second.block_on(async {
        let told = tokio::time::timeout(SOON, elsewhere).await.expect("nobody waits for ever").unwrap();
        assert!(told.unwrap_err().is_transient());
        until("the next one is answered", SOON, async || {
            tokio::time::timeout(secs(1), limiter.check("u")).await.is_ok_and(|verdict| verdict.is_ok())
        })
        .await;
    });
}

/// R77: after many calls side by side, what is counted is what was granted and not given back.
#[tokio::test]
async fn r77_the_count_is_what_was_granted_whoever_came_at_once() {
    const TASKS: u64 = 64;
    const ROUNDS: u64 = 200;
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limit = "1000000/50y fixed-window-from-first";
    let limiter = keeper.limiter("hot", limit).unwrap().decide_within(PATIENT);
    let tasks = (0..TASKS).map(|task| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            let mut kept = 0;
            for round in 0..ROUNDS {
                let cost = 1 + (task + round) % 7;
                kept += limiter.check_cost("u", cost).await.unwrap().granted();
                if round % 10 == 0 {
                    limiter.refund("u", 1).await.unwrap();
                    kept -= 1;
                }
            }
            kept
        })
    });
    let kept: u64 = join_all(tasks).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(1_000_000 - remaining(&limiter, "u").await, kept);
}
