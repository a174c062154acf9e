//! Lost replies, broken connections, stopped servers: nothing is run twice because of them, and nothing is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use lockkeeper::{Begun, ErrorKind, Keeper, LossReason, OncePhase, Refusal};
use lockkeeper_faults::DropReply;
use lockkeeper_testkit::drops::poll_times;
use lockkeeper_testkit::fake::{Fake, FakeServer, greeting};
use lockkeeper_testkit::wait::until;

use crate::common::{claim, ends, idle, impatient, lost, replay, request, whole};
use crate::support::{SOON, command, exists, keeper, ms, proxied, quiet, secs, server};

const KEY: &str = "once:faults:k";

/// C16: the server pauses for three seconds exactly when the result is to be stored.
#[tokio::test]
async fn c16_a_completion_survives_a_pause_of_the_server() {
    let Some(server) = server() else { return };
    let (one, other) = (keeper(&server).await, keeper(&server).await);
    let (once, others) = (one.once("faults").unwrap(), other.once("faults").unwrap());
    let attempt = claim(&once, "k").await;
    let paused = Instant::now();
    command(&server, &["CLIENT", "PAUSE", "3000", "ALL"]);
    attempt.complete(whole("done")).await.unwrap();
    assert!(paused.elapsed() >= secs(2), "{:?}", paused.elapsed());
    assert_eq!(replay(&others, "k").await.stored, whole("done"), "and no second run");
    idle(&one, "after the pause").await;
}

/// C16 with a lease that is shorter than the pause is what the guide says: the claim lapses, and whoever comes first has it.
#[tokio::test]
async fn a_pause_beyond_the_lease_ends_in_one_of_two_ways_and_says_which() {
    let Some(server) = server() else { return };
    let one = impatient(&server.url()).await;
    let once = one.once("faults").unwrap().lease(ms(600));
    let attempt = claim(&once, "k").await;
    server.pause().unwrap();
    let completing = tokio::spawn(attempt.clone().complete(whole("late")));
    assert!(matches!(lost(&attempt).await, LossReason::NotRenewed(_)));
    server.resume().unwrap();
    ends(completing).await.expect("nobody took it over");
    assert_eq!(replay(&once, "k").await.stored, whole("late"));
}

#[tokio::test]
async fn c16_a_completion_whose_connection_is_killed_is_sent_again() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let once = keeper.once("faults").unwrap();
    let attempt = claim(&once, "k").await;
    proxy.drop_next_reply(DropReply::ThenClose);
    attempt.complete(whole("one")).await.unwrap();
    let attempt = claim(&once, "cut").await;
    proxy.cut();
    let completing = tokio::spawn(attempt.complete(whole("two")));
    until("it was tried", SOON, async || keeper.health().await.giving_back > 0).await;
    proxy.heal();
    ends(completing).await.unwrap();
    assert_eq!(replay(&once, "k").await.stored, whole("one"));
    assert_eq!(replay(&once, "cut").await.stored, whole("two"));
}

/// C16: while the result finds no place, its claim is renewed, however long its lease is, and beyond the bound on what runs.
#[tokio::test]
async fn c16_a_claim_is_renewed_while_its_completion_is_refused() {
    let script =
        |name: &str| lockkeeper::redis::SCRIPTS.iter().find(|script| script.name == name).unwrap().hash();
    let (begin, keep_alive, complete) = (script("begin"), script("keep_alive"), script("complete"));
    let renewals = Arc::new(AtomicUsize::new(0));
    let seen = renewals.clone();
    let fake = FakeServer::start(move |_, words| {
        let say = |rest: &str| Fake::Say(format!("*{}", rest.replace("NOW", ":1000000")));
        match words.get(1).map(String::as_str) {
            Some(hash) if hash == begin => say("5\r\nNOW\r\n$7\r\nclaimed\r\n:7\r\n:1\r\n:0"),
            Some(hash) if hash == keep_alive => {
                seen.fetch_add(1, Ordering::SeqCst);
                say("2\r\nNOW\r\n$4\r\nkept")
            }
            Some(hash) if hash == complete && seen.load(Ordering::SeqCst) < 6 => {
                Fake::Say("-LOADING Redis is loading the dataset in memory".to_owned())
            }
            Some(hash) if hash == complete => say("3\r\nNOW\r\n$9\r\ncompleted\r\n:5"),
            _ => greeting(words).unwrap_or(Fake::Say("+OK".to_owned())),
        }
    });
    let keeper = impatient(&fake.url()).await;
    let attempt = claim(&keeper.once("faults").unwrap().lease(ms(600)).max_hold(ms(700)), "k").await;
    let completing = tokio::spawn(attempt.clone().complete(whole("done")));
    let lost = tokio::time::timeout(secs(20), attempt.lost()).await.unwrap();
    assert_eq!(lost, LossReason::Released, "two leases later");
    ends(completing).await.unwrap();
    assert!(renewals.load(Ordering::SeqCst) >= 6);
}

/// A refusal that does not pass is told at once, and whoever comes later is not told that it has run.
#[tokio::test]
async fn a_completion_that_is_refused_for_good_says_so() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let once = keeper.once("faults").unwrap().lease(ms(500));
    let attempt = claim(&once, "k").await;
    command(&server, &["ACL", "SETUSER", "default", "-set"]);
    let error = attempt.clone().complete(whole("done")).await.unwrap_err();
    command(&server, &["ACL", "SETUSER", "default", "+@all"]);
    assert_eq!(error.kind(), ErrorKind::Refused(Refusal::NoPermission), "{error}");
    assert!(matches!(attempt.loss(), Some(LossReason::NotRenewed(_))), "{:?}", attempt.loss());
    drop(attempt);
    let Begun::Claimed(again) = once.wait(secs(5)).begin("k", request()).await.unwrap() else { panic!() };
    assert!(again.is_takeover(), "left to its lease, and crashed then");
}

/// Invariant 5: no answer is neither a claim nor a refusal, and nobody has run it: the key is open, not taken over.
#[tokio::test]
async fn a_begin_whose_reply_is_lost_is_given_back() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = impatient(&proxy.url()).await;
    let once = keeper.once("faults").unwrap();
    drop(claim(&once, "warm").await);
    quiet(&keeper).await;
    proxy.drop_replies(DropReply::Silently);
    let error = once.begin("k", request()).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    assert!(exists(&server, KEY), "it was applied");
    proxy.heal();
    quiet(&keeper).await;
    let seen = once.inspect("k").await.unwrap().unwrap();
    assert_eq!((seen.phase, seen.attempt), (OncePhase::Open, 1));
    assert!(!claim(&once, "k").await.is_takeover());
}

/// Invariant 5: it reaches the server after it was given back, and takes nothing for good.
#[tokio::test]
async fn a_begin_that_a_stopped_server_kept_takes_nothing_later() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let once = keeper.once("faults").unwrap();
    drop(claim(&once, "warm").await);
    quiet(&keeper).await;
    for stopped_for in [ms(0), ms(400)] {
        server.pause().unwrap();
        let error = once.begin("k", request()).await.unwrap_err();
        assert!(error.may_have_been_applied() || error.is_transient(), "{error}");
        // Real time: with a stop beyond the request's limit, its "not after" has passed when the server goes on.
        tokio::time::sleep(stopped_for).await;
        server.resume().unwrap();
        quiet(&keeper).await;
        let seen = once.inspect("k").await.unwrap();
        assert!(seen.as_ref().is_none_or(|seen| seen.phase == OncePhase::Open), "{seen:?}");
    }
}

/// A claim that is asked for by two copies of one request is one claim.
#[tokio::test]
async fn a_begin_is_repeated_with_its_token_after_a_broken_connection() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::builder().url(&proxy.url()).unwrap().response_timeout(ms(1000));
    let keeper = keeper.connect().await.unwrap();
    let once = keeper.once("faults").unwrap();
    drop(claim(&once, "warm").await);
    proxy.drop_next_reply(DropReply::ThenClose);
    let attempt = claim(&once, "k").await;
    assert_eq!((attempt.attempt(), attempt.is_takeover()), (1, false));
    attempt.abandon().await.unwrap();
    // The first copy is in doubt for a while; what it could claim is given back.
    quiet(&keeper).await;
    assert_eq!(once.inspect("k").await.unwrap().unwrap().phase, OncePhase::Open);
}

/// The answer comes after the claim has ended by this process's clock: nobody runs on it.
#[tokio::test]
async fn a_claim_that_is_answered_too_late_is_not_used() {
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let once = keeper.once("faults").unwrap().lease(ms(100));
    drop(claim(&once, "warm").await);
    quiet(&keeper).await;
    proxy.slow(ms(200));
    let error = once.begin("k", request()).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    proxy.slow(ms(0));
    quiet(&keeper).await;
    assert_eq!(claim(&once, "k").await.attempt(), 2);
}

#[tokio::test]
async fn the_store_goes_away_for_longer_than_the_lease_and_the_attempt_is_told_in_time() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let lease = ms(900);
    let once = keeper.once("faults").unwrap().lease(lease);
    let attempt = claim(&once, "k").await;
    server.pause().unwrap();
    let stopped = Instant::now();
    let reason = lost(&attempt).await;
    // No renewal was sent after the stop and answered, so no lease runs for longer than this.
    assert!(stopped.elapsed() < lease, "{:?}", stopped.elapsed());
    assert!(matches!(reason, LossReason::NotRenewed(_)), "{reason:?}");
    server.resume().unwrap();
    drop(attempt);
    quiet(&keeper).await;
    let patient = once.wait(secs(10));
    let Begun::Claimed(again) = patient.begin("k", request()).await.unwrap() else { panic!() };
    assert!(again.is_takeover());
}

/// `close` waits for what is under way, and gives up at its limit.
#[tokio::test]
async fn closing_waits_for_completions_within_its_limit() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let once = keeper.once("faults").unwrap();
    for (key, stops_for, undone) in [("k", ms(500), 0), ("late", secs(20), 1)] {
        let keeper = impatient(&server.url()).await;
        let attempt = claim(&keeper.once("faults").unwrap(), key).await;
        server.pause().unwrap();
        let completing = tokio::spawn(attempt.complete(whole("done")));
        until("it is under way", SOON, async || keeper.health().await.giving_back > 0).await;
        let resumed = {
            let pid = server.pid().unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(stops_for).await;
                pid
            })
        };
        let closing = tokio::spawn({
            let keeper = keeper.clone();
            async move { keeper.close(secs(3)).await }
        });
        if undone == 0 {
            ends(resumed).await;
            server.resume().unwrap();
        } else {
            resumed.abort();
        }
        let closed = ends(closing).await;
        assert_eq!(closed.undone, undone, "{key}: {closed:?}");
        if undone > 0 {
            server.resume().unwrap();
        }
        match ends(completing).await {
            Ok(_) => assert_eq!(undone, 0, "{key}"),
            Err(error) => {
                assert!(undone > 0 && error.is_outcome_unknown(), "{error}");
                assert!(error.to_string().contains("not tried again (the keeper has ended)"), "{error}");
            }
        }
    }
    assert_eq!(replay(&once, "k").await.stored, whole("done"));
}

/// Nobody works for a keeper that was closed: an end that is refused a place says so.
#[tokio::test]
async fn a_completion_that_finds_nobody_to_go_on_with_it_says_so() {
    let Some(server) = server() else { return };
    let keeper = impatient(&server.url()).await;
    let attempt = claim(&keeper.once("faults").unwrap(), "k").await;
    keeper.close(ms(100)).await;
    server.pause().unwrap();
    let error = attempt.complete(whole("done")).await.unwrap_err();
    server.resume().unwrap();
    assert!(error.is_outcome_unknown(), "{error}");
    assert!(error.to_string().contains("not tried again (the keeper is closed)"), "{error}");
}

/// The keeper is closed while this is under way.
async fn closed_meanwhile<T: Send + 'static>(
    server: &lockkeeper_faults::RedisServer,
    keeper: &Keeper,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    server.pause().unwrap();
    let mut work = Box::pin(work);
    assert!(poll_times(work.as_mut(), 1).await.is_none(), "it is under way");
    let working = tokio::spawn(work);
    let mut closing = Box::pin(keeper.close(secs(20)));
    // Real time: nothing happens while the server is stopped.
    assert!(tokio::time::timeout(ms(100), closing.as_mut()).await.is_err(), "it waits");
    server.resume().unwrap();
    assert_eq!(closing.await.undone, 0);
    ends(working).await
}

/// What never began is not left to its lease, of which nobody would know what it had done.
#[tokio::test]
async fn closing_waits_for_a_begin_and_gives_it_back() {
    let Some(server) = server() else { return };
    let (closed, other) = (keeper(&server).await, keeper(&server).await);
    let held =
        |keeper: &Keeper| keeper.once("faults").unwrap().on_crash(lockkeeper::OnCrash::Hold(secs(600)));
    claim(&held(&closed), "warm").await.abandon().await.unwrap();
    quiet(&closed).await;
    let once = held(&closed);
    let begun = closed_meanwhile(&server, &closed, async move { once.begin("k", request()).await }).await;
    assert_eq!(begun.unwrap_err().kind(), ErrorKind::Closed);
    let seen = held(&other).inspect("k").await.unwrap().unwrap();
    assert_eq!((seen.phase, seen.attempt), (OncePhase::Open, 1));
}

#[tokio::test]
async fn closing_waits_for_an_abandonment() {
    let Some(server) = server() else { return };
    let (closed, other) = (keeper(&server).await, keeper(&server).await);
    let attempt = claim(&closed.once("faults").unwrap(), "k").await;
    closed_meanwhile(&server, &closed, attempt.abandon()).await.unwrap();
    let seen = other.once("faults").unwrap().inspect("k").await.unwrap().unwrap();
    assert_eq!(seen.phase, OncePhase::Open);
}

/// Real time: ten seconds, however long the keeper waits for an answer.
#[tokio::test]
async fn a_caller_waits_ten_seconds_for_a_completion_and_no_longer() {
    let Some(server) = server() else { return };
    let keeper =
        Keeper::builder().url(&server.url()).unwrap().response_timeout(secs(60)).connect().await.unwrap();
    let attempt = claim(&keeper.once("faults").unwrap().lease(secs(300)), "k").await;
    server.pause().unwrap();
    let started = Instant::now();
    let error = tokio::time::timeout(secs(30), attempt.complete(whole("done"))).await.unwrap().unwrap_err();
    server.resume().unwrap();
    assert!(error.is_outcome_unknown() && error.to_string().contains("goes on"), "{error}");
    assert!(started.elapsed() < secs(15), "{:?}", started.elapsed());
    idle(&keeper, "afterwards").await;
    assert_eq!(replay(&keeper.once("faults").unwrap(), "k").await.stored, whole("done"));
}

/// The store is away and large results wait for it: four of them are kept, of the fifth that it has run.
#[tokio::test]
async fn results_that_wait_for_the_store_are_bounded_and_what_has_run_is_not_run_again() {
    const LARGEST: usize = 16 * 1024 * 1024;
    let Some(server) = server() else { return };
    let proxy = proxied(&server);
    let keeper = Keeper::connect(&proxy.url()).await.unwrap();
    let once = keeper.once("faults").unwrap().max_result(LARGEST);
    let mut attempts = Vec::new();
    for number in 0..5 {
        attempts.push(claim(&once, &number.to_string()).await);
    }
    proxy.cut();
    let stored = lockkeeper::Stored::whole(vec![b'x'; LARGEST]).unwrap();
    // Dropped at once: they go on by themselves.
    attempts.into_iter().for_each(|attempt| drop(attempt.complete(stored.clone())));
    proxy.heal();
    until("recorded", secs(30), async || keeper.health().await.giving_back == 0).await;
    let mut whole = 0;
    for number in 0..5 {
        whole += usize::from(replay(&once, &number.to_string()).await.stored == stored);
    }
    assert_eq!(whole, 4);
}
