//! Limiters on a real server: what goes together, what it costs, and what is charged when something goes wrong.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockkeeper::{Error, ErrorKind, Keeper, Limiter, ManualClock, Source, Verdict, WhenAway};
use lockkeeper_faults::{FaultProxy, RedisServer};
use lockkeeper_testkit::drops::{drop_at_every_poll, poll_times};
use lockkeeper_testkit::wait::until;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use support::{PATIENT, SOON, command, keeper, ms, only_key, proxied, scripts, secs, server};

async fn remaining(limiter: &Limiter, subject: &str) -> u64 {
    limiter.peek(subject, 1).await.unwrap().remaining()
}

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
    let direct = keeper_of(&server).await.limiter("hot", "100/h").unwrap();
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
    let direct = keeper_of(&server).await.limiter("hot", "100/h").unwrap();
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
    assert_eq!(of("redis_limit_repairs_total"), &DebugValue::Counter(1));
}

async fn keeper_of(server: &RedisServer) -> Keeper {
    keeper(server).await
}

/// A stopped server that goes on takes nothing for those who left.
#[tokio::test]
async fn a_stopped_server_burns_no_quota_for_those_who_left() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(ms(100)).exact();
    assert!(limiter.check("u").await.is_ok());
    server.pause().unwrap();
    for _ in 0..2 {
        let error = limiter.check("u").await.unwrap_err();
        assert!(error.is_transient(), "a store failure is not a refusal: {error}");
    }
    tokio::time::sleep(ms(150)).await; // Real time: what was sent has to be too late on the server.
    server.resume().unwrap();
    let patient = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT);
    until("the server answers", SOON, async || patient.peek("u", 1).await.is_ok()).await;
    assert_eq!(remaining(&patient, "u").await, 99);
}

/// R125, R127, R128: the policy decides, within its time, and an outage costs no time-out each.
#[tokio::test]
async fn r125_r127_r128_r130_while_the_server_is_stopped_the_policy_decides_at_once_and_it_comes_back_by_itself()
 {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(ms(60)).exact();
    let allowing = limiter.clone().when_away(WhenAway::Allow);
    let sharing = limiter.clone().when_away(WhenAway::Share { instances: 10 });
    for cost in [1, 3] {
        assert!(sharing.check_cost("u", cost).await.unwrap().is_allowed());
    }
    server.pause().unwrap();
    for _ in 0..3 {
        let started = Instant::now();
        let verdict = allowing.check("u").await.unwrap();
        assert_eq!(verdict.detail().source(), Source::Unchecked);
        assert!(verdict.is_degraded() && started.elapsed() < secs(2), "{:?}", started.elapsed());
    }
    let error = limiter.check("u").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "the circuit is open: {error}");
    let started = Instant::now();
    for _ in 0..10_000 {
        assert!(allowing.check("u").await.unwrap().is_degraded());
    }
    assert!(started.elapsed() < secs(2), "10,000 checks took {:?}", started.elapsed());
    // R130: the share is warm: 10 of 100 for this one of ten, of which 4 are used.
    let mut allowed = 0;
    for _ in 0..20 {
        let verdict = sharing.check("u").await.unwrap();
        assert_eq!(verdict.detail().source(), Source::Share);
        allowed += verdict.granted();
    }
    assert_eq!(allowed, 6);
    server.resume().unwrap();
    until("the store decides again", SOON, async || {
        limiter.check("v").await.is_ok_and(|verdict| verdict.detail().source() == Source::Store)
    })
    .await;
}

#[tokio::test]
async fn what_is_not_a_limit_is_left_alone_and_left_to_the_policy() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT);
    assert!(limiter.check("u").await.unwrap().is_allowed());
    let keys = command(&server, &["KEYS", "limit:*"]);
    let key = keys.as_array().unwrap()[0].as_str().unwrap().to_owned();
    command(&server, &["DEL", &key]);
    command(&server, &["RPUSH", &key, "x"]);
    let error = limiter.check("u").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongType);
    assert!(error.to_string().contains("it is not a limit's state"), "{error}");
    assert!(limiter.clone().when_away(WhenAway::Allow).check("u").await.unwrap().is_degraded());
    assert_eq!(command(&server, &["LLEN", &key]).as_int(), Some(1));
    assert_eq!(limiter.reset("u").await.unwrap_err().kind(), ErrorKind::WrongType);
}

/// Refusals cost one round trip a second, and what is given back here counts at once.
#[tokio::test]
async fn refusals_are_remembered_until_something_is_given_back() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "2/h").unwrap().decide_within(PATIENT);
    assert!(limiter.check_cost("u", 2).await.unwrap().is_allowed());
    let denied = limiter.check("u").await.unwrap();
    assert_eq!(denied.detail().source(), Source::Store);
    let before = scripts(&server);
    for _ in 0..1000 {
        let again = limiter.check("u").await.unwrap();
        if again.detail().source() == Source::Remembered {
            assert!(again.retry_after().unwrap() <= denied.retry_after().unwrap());
        }
    }
    assert!(scripts(&server) - before <= 10, "{} calls for 1,000 refusals", scripts(&server) - before);
    limiter.refund("u", 1).await.unwrap();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    assert!(!limiter.check("u").await.unwrap().is_allowed());
    limiter.reset("u").await.unwrap();
    assert!(limiter.check("u").await.unwrap().is_allowed());

    let forgetful = limiter.without_memory_of_denials();
    assert!(forgetful.check("u").await.unwrap().is_allowed());
    let before = scripts(&server);
    for _ in 0..10 {
        assert_eq!(forgetful.check("u").await.unwrap().detail().source(), Source::Store);
    }
    assert_eq!(scripts(&server) - before, 10);
}

/// `SCRIPT FLUSH` and a restart without data are survived; what was used is forgotten with the data.
#[tokio::test]
async fn a_server_that_forgets_scripts_or_everything_is_survived() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT);
    assert!(limiter.check("u").await.unwrap().is_allowed());
    command(&server, &["SCRIPT", "FLUSH"]);
    assert_eq!(limiter.check("u").await.unwrap().remaining(), 98);
    server.kill().unwrap();
    server.restart().unwrap();
    until("it decides again", PATIENT, async || limiter.check("v").await.is_ok()).await;
    assert_eq!(remaining(&limiter, "u").await, 100);
}

#[tokio::test]
async fn r131_a_full_server_is_a_store_failure_and_no_refusal() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = keeper.limiter("hot", "100/h").unwrap().decide_within(PATIENT);
    command(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    let error = limiter.check("u").await.unwrap_err();
    assert!(error.is_transient() && matches!(error.kind(), ErrorKind::Refused(_)), "{error}");
    assert!(limiter.clone().when_away(WhenAway::Allow).check("u").await.unwrap().is_degraded());
    command(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    assert!(limiter.check("u").await.unwrap().is_allowed());
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

/// A keeper behind `proxy`, on a clock that the test steps.
async fn stepped_behind(proxy: &FaultProxy) -> (Keeper, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let keeper = Keeper::builder().url(&proxy.url()).unwrap().clock(clock.clone()).connect().await.unwrap();
    (keeper, clock)
}

/// Counted from sending, for a second at most, and for the cost that was refused.
#[tokio::test]
async fn a_refusal_is_remembered_for_a_second_from_when_the_store_was_asked() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let (keeper, clock) = stepped_behind(&proxy).await;
    let limiter = keeper.limiter("hot", "3/h").unwrap().decide_within(secs(60));
    assert!(limiter.check_cost("u", 2).await.unwrap().is_allowed());
    proxy.hold_replies();
    let asked = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.check_cost("u", 2).await.unwrap() }
    });
    until("it is under way", SOON, async || proxy.stats().kept_reply_bytes > 0).await;
    clock.advance(ms(600));
    proxy.release();
    let denied = asked.await.unwrap();
    assert_eq!(denied.detail().source(), Source::Store);
    clock.advance(ms(399));
    let again = limiter.check_cost("u", 2).await.unwrap();
    assert_eq!(again.detail().source(), Source::Remembered);
    assert_eq!(again.retry_after(), Some(denied.retry_after().unwrap() - ms(399)), "counted down");
    clock.advance(ms(1));
    assert_eq!(limiter.check_cost("u", 2).await.unwrap().detail().source(), Source::Store, "a second");
    assert_eq!(limiter.check_cost("u", 2).await.unwrap().detail().source(), Source::Remembered);
    assert!(limiter.check("u").await.unwrap().is_allowed(), "one fits");
}

/// The age of leased tokens counts from sending as well.
#[tokio::test]
async fn leased_tokens_are_as_old_as_the_call_that_took_them() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let (keeper, clock) = stepped_behind(&proxy).await;
    let limiter = keeper.limiter("hot", "10000/h").unwrap().decide_within(secs(60));
    let leased = limiter.leased().unwrap();
    assert!(leased.check("warm").await.unwrap().is_allowed());
    proxy.hold_replies();
    let asked = tokio::spawn({
        let leased = leased.clone();
        async move { leased.check("u").await.unwrap() }
    });
    until("it is under way", SOON, async || proxy.stats().kept_reply_bytes > 0).await;
    clock.advance(ms(999));
    proxy.release();
    assert!(asked.await.unwrap().is_allowed());
    let before = scripts(&server);
    assert!(leased.check("u").await.unwrap().is_allowed());
    assert_eq!(scripts(&server), before, "the last millisecond of the first ones");
    clock.advance(ms(1));
    assert!(leased.check("u").await.unwrap().is_allowed());
    assert!(scripts(&server) > before, "new ones were taken");
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

/// What an earlier limiter let pass unchecked was charged nowhere: to give it back would be a gift.
#[tokio::test]
async fn a_joint_in_sequence_gives_back_what_the_store_charged_and_nothing_else() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let one = keeper.limiter("one", "100/h").unwrap().decide_within(PATIENT);
    let two = keeper.limiter("two", "1/h").unwrap().decide_within(PATIENT);
    assert!(one.check_cost("u", 5).await.unwrap().is_allowed() && two.check("o").await.unwrap().is_allowed());
    let both = keeper.joint_in_sequence([one.clone(), two.clone()]).unwrap();
    assert!(!both.check(["u", "o"], 1).await.unwrap().is_allowed());
    assert_eq!(remaining(&one, "u").await, 95, "charged, and given back");
    let hasty = one.clone().decide_within(ms(2)).when_away(WhenAway::Allow);
    let hasty = keeper.joint_in_sequence([hasty, two]).unwrap();
    proxy.slow(ms(20));
    let denied = hasty.check(["u", "o"], 1).await.unwrap();
    assert!(!denied.is_allowed() && denied.is_degraded(), "{denied:?}");
    proxy.slow(Duration::ZERO);
    assert_eq!(remaining(&one, "u").await, 95);
}

/// A share is smaller than its limit, so what does not fit into it is refused for now, not for ever.
#[tokio::test]
async fn a_share_says_never_of_what_the_limit_cannot_hold_and_is_charged_limit_by_limit() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let sharing = |name: &str, limits: &str| {
        let limiter = keeper.limiter(name, limits).unwrap().decide_within(ms(200));
        limiter.when_away(WhenAway::Share { instances: 2 })
    };
    let (one, tiny) = (sharing("one", "10/h"), sharing("tiny", "1/h"));
    let two = sharing("two", "2/d fixed-window-from-first; 10/y fixed-window-from-first");
    for _ in 0..2 {
        let verdict = two.check("u").await.unwrap();
        assert!(verdict.is_allowed() && !verdict.is_degraded());
    }
    server.pause().unwrap();
    for limiter in [&one, &tiny] {
        assert!(matches!(limiter.check_cost("u", 11).await.unwrap(), Verdict::Never { by: 0, .. }));
    }
    let denied = one.check_cost("u", 6).await.unwrap();
    assert!(denied.is_degraded() && denied.retry_after() >= Some(ms(100)), "{denied:?}");
    assert!(tiny.check("u").await.unwrap().retry_after() >= Some(ms(100)));
    let Verdict::Denied { by: 0, detail, .. } = two.check("u").await.unwrap() else { panic!("denied") };
    let left: Vec<u64> = detail.states().map(|state| state.remaining).collect();
    assert_eq!(left, [0, 3], "half of 2 and of 10, of which 2 are used");
    server.resume().unwrap();
}

/// What one handle gives back, every other handle of the same keeper sees at once.
#[tokio::test]
async fn a_joint_does_not_remember_what_its_limiters_gave_back() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let limiter = |name: &str, limit: &str| keeper.limiter(name, limit).unwrap().decide_within(PATIENT);
    let (user, org) = (limiter("user", "1/h"), limiter("org", "100/h"));
    let both = keeper.joint("both", [user.clone(), org]).unwrap();
    let again = limiter("user", "1/h");
    let twice = || async { (both.check(["u", "o"], 1).await.unwrap(), again.check("u").await.unwrap()) };
    assert!(both.check(["u", "o"], 1).await.unwrap().is_allowed());
    for give_back in [true, false] {
        let (joint, other) = twice().await;
        assert!(!joint.is_allowed() && !other.is_allowed());
        match give_back {
            true => user.refund("u", 1).await.unwrap(),
            false => assert!(user.reset("u").await.unwrap()),
        }
        let (joint, other) = twice().await;
        assert!(joint.is_allowed() && !other.is_allowed(), "{joint:?} {other:?}");
    }
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
