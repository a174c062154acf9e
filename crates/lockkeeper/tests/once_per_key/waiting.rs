//! Waiting for the end of an attempt.

use std::sync::Arc;
use std::time::Instant;

use lockkeeper::core::idempotency::OnceCell;
use lockkeeper::core::{Clock, MemoryStore};
use lockkeeper::{Begun, ErrorKind, Keeper, Key, ManualClock, OnCrash, Prefix};
use lockkeeper_testkit::wait::until;

use crate::common::{LEASE, claim, ends, in_line, replay, request, two, waits, whole};
use crate::support::{SOON, command, keeper, ms, quiet, scripts, secs, server, step, stepped};

/// No time passes by this clock: nobody polls.
#[tokio::test]
async fn who_waits_in_the_same_process_is_woken_by_the_end() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("waiting").unwrap();
    let patient = once.clone().wait(secs(60));
    let attempt = claim(&once, "k").await;
    let callers = [waits(&patient, "k"), waits(&patient, "k"), waits(&patient, "k")];
    in_line(&keeper, 3).await;
    attempt.complete(whole("done")).await.unwrap();
    for caller in callers {
        let Begun::Completed(replay) = ends(caller).await else { panic!() };
        assert_eq!(replay.stored, whole("done"));
    }
    in_line(&keeper, 0).await;
}

/// One of them claims what was abandoned; the others wait for that one.
#[tokio::test]
async fn of_those_who_wait_one_runs_what_was_abandoned() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("waiting").unwrap();
    let patient = once.clone().wait(secs(60));
    let attempt = claim(&once, "k").await;
    let mut callers = vec![waits(&patient, "k"), waits(&patient, "k"), waits(&patient, "k")];
    in_line(&keeper, 3).await;
    drop(attempt);
    until("one has it", SOON, async || callers.iter().any(tokio::task::JoinHandle::is_finished)).await;
    let winner = callers.iter().position(tokio::task::JoinHandle::is_finished).unwrap();
    let Begun::Claimed(attempt) = ends(callers.remove(winner)).await else { panic!() };
    assert_eq!(attempt.attempt(), 2);
    in_line(&keeper, 2).await;
    attempt.complete(whole("second")).await.unwrap();
    for caller in callers {
        assert!(matches!(ends(caller).await, Begun::Completed(_)));
    }
}

/// Another process ends it, and no notice ever comes: it is asked for.
#[tokio::test]
async fn an_end_that_nobody_tells_of_is_found() {
    let (keeper, other, clock) = two().await;
    let attempt = claim(&other.once("waiting").unwrap(), "k").await;
    let caller = waits(&keeper.once("waiting").unwrap().wait(secs(60)), "k");
    in_line(&keeper, 1).await;
    attempt.complete(whole("elsewhere")).await.unwrap();
    let found = until("found", SOON, async || {
        step(&clock, ms(100)).await;
        caller.is_finished()
    });
    found.await;
    let Begun::Completed(replay) = ends(caller).await else { panic!() };
    assert_eq!(replay.stored, whole("elsewhere"));
}

#[tokio::test]
async fn when_its_time_is_over_who_waits_is_told_who_runs() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("waiting").unwrap();
    let attempt = claim(&once, "k").await;
    let caller = waits(&once.wait(secs(5)), "k");
    in_line(&keeper, 1).await;
    step(&clock, ms(4999)).await;
    assert!(!caller.is_finished());
    step(&clock, ms(1)).await;
    let Begun::Running { holder, retry_after, .. } = ends(caller).await else { panic!() };
    assert_eq!(holder, attempt.holder());
    assert_eq!(retry_after, LEASE - secs(5), "what is left by now, not when it asked last");
}

/// Evicted, flushed, or its process died: whoever waits runs it.
#[tokio::test]
async fn who_waits_takes_over_what_went_away() {
    for is_evicted in [true, false] {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::new(clock.clone());
        let keeper = Keeper::builder().memory_store(store.clone()).clock(clock.clone());
        let keeper = keeper.connect().await.unwrap();
        let once = keeper.once("waiting").unwrap();
        let attempt = claim(&once, "k").await;
        let caller = waits(&once.wait(secs(600)), "k");
        in_line(&keeper, 1).await;
        if is_evicted {
            let key = Key::new(&Prefix::new("once:").unwrap(), "waiting:k").unwrap();
            store.tamper(&key, |cell: &mut OnceCell| *cell = OnceCell::Absent);
            step(&clock, secs(1)).await;
        } else {
            step(&clock, LEASE + ms(10)).await;
        }
        let Begun::Claimed(taken) = ends(caller).await else { panic!() };
        assert_eq!(taken.is_takeover(), !is_evicted);
        assert!(taken.fence() > attempt.fence());
    }
}

#[tokio::test]
async fn unknown_outcomes_and_closed_keepers_are_not_waited_for() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("waiting").unwrap().on_crash(OnCrash::Hold(secs(600))).wait(secs(60));
    drop(claim(&once, "k").await);
    quiet(&keeper).await;
    assert!(matches!(ends(waits(&once, "k")).await, Begun::Unknown { .. }));
    let _attempt = claim(&once, "other").await;
    let caller = {
        let once = once.clone();
        tokio::spawn(async move { once.begin("other", request()).await })
    };
    in_line(&keeper, 1).await;
    keeper.close(ms(10)).await;
    assert_eq!(ends(caller).await.unwrap_err().kind(), ErrorKind::Closed);
}

/// The server tells of the end: who waits does not sleep until the next poll.
#[tokio::test]
async fn an_end_in_another_process_is_told_by_the_server() {
    let Some(server) = server() else { return };
    let (runs, waiting) = (keeper(&server).await, keeper(&server).await);
    let once = runs.once("waiting").unwrap();
    let patient = waiting.once("waiting").unwrap().wait(secs(60));
    let mut attempts = Vec::new();
    for key in 0..10 {
        let key = key.to_string();
        let attempt = claim(&once, &key).await;
        let callers: Vec<_> = (0..5).map(|_| waits(&patient, &key)).collect();
        attempts.push((attempt, callers));
    }
    in_line(&waiting, 50).await;
    // Real time: by then, who polls does so every half second.
    tokio::time::sleep(ms(1200)).await;
    let mut woken = Vec::new();
    for (attempt, callers) in attempts {
        let ended = Instant::now();
        attempt.complete(whole("done")).await.unwrap();
        for caller in callers {
            assert!(matches!(ends(caller).await, Begun::Completed(_)));
        }
        woken.push(ended.elapsed());
    }
    assert!(crate::support::median(&woken) < ms(60), "{woken:?}");
}

/// Twenty who wait for the same key cost the server what one costs.
#[tokio::test]
async fn those_who_wait_for_the_same_key_share_one_who_asks() {
    let Some(server) = server() else { return };
    let (runs, waiting) = (keeper(&server).await, keeper(&server).await);
    let attempt = claim(&runs.once("waiting").unwrap(), "k").await;
    let patient = waiting.once("waiting").unwrap().wait(secs(3));
    let before = scripts(&server);
    let started = Instant::now();
    let callers: Vec<_> = (0..20).map(|_| waits(&patient, "k")).collect();
    for caller in callers {
        assert!(matches!(ends(caller).await, Begun::Running { .. }));
    }
    assert!(started.elapsed() >= secs(3), "{:?}", started.elapsed());
    // Each asks once; then one asks, at least every half second; and the attempt's renewals.
    let asked = scripts(&server) - before;
    assert!(asked <= 20 + 15, "{asked}");
    drop(attempt);
}

/// Twenty who wait for a large result cost the server one copy of it at most, in whichever process it is recorded. In the same
/// one, the server's notice may be quicker than the answer.
#[tokio::test]
async fn those_who_wait_for_the_same_result_share_one_copy() {
    let Some(server) = server() else { return };
    let (runs, waiting) = (keeper(&server).await, keeper(&server).await);
    let (once, large) = (runs.once("waiting").unwrap(), whole(&"x".repeat(100_000)));
    for (key, patient) in [("elsewhere", waiting.once("waiting").unwrap()), ("here", once.clone())] {
        let attempt = claim(&once, key).await;
        let before = scripts(&server);
        let callers: Vec<_> = (0..20).map(|_| waits(&patient.clone().wait(secs(60)), key)).collect();
        // Each once, and the one who asks for all.
        until("asked", SOON, async || scripts(&server) >= before + 21).await;
        let sent = bytes_sent(&server);
        attempt.complete(large.clone()).await.unwrap();
        for caller in callers {
            let Begun::Completed(replay) = ends(caller).await else { panic!() };
            assert_eq!(replay.stored, large);
        }
        let copies = (bytes_sent(&server) - sent) / 100_000;
        assert!(copies <= 1, "{copies} copies, {key}");
    }
}

/// By the server, so far.
fn bytes_sent(server: &lockkeeper_faults::RedisServer) -> u64 {
    let info = command(server, &["INFO", "stats"]);
    let line = info.as_str().unwrap().lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    line.unwrap().trim().parse().unwrap()
}

/// A waiter that leaves hands on what it had taken over: to ask.
#[tokio::test]
async fn when_the_one_who_asks_goes_away_another_asks() {
    let (keeper, other, clock) = two().await;
    let attempt = claim(&other.once("waiting").unwrap(), "k").await;
    let patient = keeper.once("waiting").unwrap().wait(secs(60));
    let first = waits(&patient, "k");
    in_line(&keeper, 1).await;
    let second = waits(&patient, "k");
    in_line(&keeper, 2).await;
    first.abort();
    in_line(&keeper, 1).await;
    attempt.complete(whole("done")).await.unwrap();
    // Within the pause of who asks often; the others' is five seconds.
    let since = clock.uptime();
    until("found", SOON, async || {
        step(&clock, ms(20)).await;
        second.is_finished()
    })
    .await;
    let passed = clock.uptime().since(since);
    assert!(passed <= ms(2100), "{passed:?}");
    assert_eq!(replay(&patient, "k").await.stored, whole("done"));
}

/// The server tells this user of nothing: it polls.
#[tokio::test]
async fn without_notices_an_end_is_found_by_asking() {
    let Some(server) = server() else { return };
    command(&server, &["ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-client|tracking"]);
    let url = server.url().replace("redis://", "redis://app:pw@");
    let (runs, waiting) = (keeper(&server).await, Keeper::connect(&url).await.unwrap());
    let attempt = claim(&runs.once("waiting").unwrap(), "k").await;
    let caller = waits(&waiting.once("waiting").unwrap().wait(secs(60)), "k");
    in_line(&waiting, 1).await;
    attempt.complete(whole("done")).await.unwrap();
    let since = Instant::now();
    assert!(matches!(ends(caller).await, Begun::Completed(_)));
    assert!(since.elapsed() < secs(2), "{:?}", since.elapsed());
}
