//! Work that runs once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockkeeper::{Begun, Once, RunError};
use lockkeeper_testkit::wait::until;
use tokio::sync::Notify;

use crate::common::{LEASE, begin, claim, ends, two, whole};
use crate::support::{SOON, ms, quiet, secs, stepped};

type Ran<T> = Result<T, RunError<T, String>>;

/// Runs `k` for the request 1, counting.
async fn counted(once: &Once, runs: &AtomicU32, result: Result<u32, &str>) -> Ran<u32> {
    once.run("k", &1, async |_| {
        runs.fetch_add(1, Ordering::SeqCst);
        result.map_err(str::to_owned)
    })
    .await
}

/// C1 and C5: the second one comes while the first is inside its work.
#[tokio::test]
async fn c1_c5_of_two_at_the_same_moment_one_runs() {
    let (keeper, other, _clock) = two().await;
    let (once, others) = (keeper.once("run").unwrap(), other.once("run").unwrap());
    let (runs, go_on) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let first = {
        let (once, runs, go_on) = (once.clone(), runs.clone(), go_on.clone());
        tokio::spawn(async move {
            let work = async |_| {
                runs.fetch_add(1, Ordering::SeqCst);
                go_on.notified().await;
                Ok::<_, String>(201)
            };
            once.run("k", &1, work).await
        })
    };
    until("it runs", SOON, async || runs.load(Ordering::SeqCst) == 1).await;
    let second = counted(&others, &runs, Ok(7)).await;
    assert!(matches!(second, Err(RunError::Running { attempt: 1, .. })), "{second:?}");
    go_on.notify_one();
    assert_eq!(ends(first).await.unwrap(), 201);
    assert_eq!(counted(&others, &runs, Ok(7)).await.unwrap(), 201);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let different: Ran<u32> = once.run("k", &2, async |_| Ok(7)).await;
    assert!(matches!(different, Err(RunError::DifferentRequest)));
}

/// C20 without HTTP: a failure had no effect, so the next one runs.
#[tokio::test]
async fn c20_a_failure_leaves_the_key_open() {
    let (keeper, _clock) = stepped().await;
    let (once, runs) = (keeper.once("run").unwrap(), AtomicU32::new(0));
    let failed = counted(&once, &runs, Err("503")).await;
    assert!(matches!(failed, Err(RunError::Work(ref why)) if why == "503"), "{failed:?}");
    assert_eq!(counted(&once, &runs, Ok(200)).await.unwrap(), 200);
    assert_eq!(counted(&once, &runs, Ok(201)).await.unwrap(), 200);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn c20_a_failure_that_is_made_a_value_is_answered_to_later_callers() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("run").unwrap();
    for result in [Err("declined".to_owned()), Ok(5)] {
        let ran: Result<u32, String> =
            once.run("k", &1, async |_| Ok::<_, Infallible>(result)).await.unwrap();
        assert_eq!(ran, Err("declined".to_owned()));
    }
}

/// C17: the claim ends on every path.
#[tokio::test]
async fn c17_work_that_panics_or_is_dropped_is_run_again() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("run").unwrap();
    let panics = {
        let once = once.clone();
        tokio::spawn(async move {
            let ran: Ran<u32> = once.run("k", &1, async |_| panic!("on purpose")).await;
            ran
        })
    };
    assert!(panics.await.unwrap_err().is_panic());
    quiet(&keeper).await;
    let dropped = {
        let once = once.clone();
        tokio::spawn(async move {
            let ran: Ran<u32> = once.run("k", &1, async |_| std::future::pending().await).await;
            ran
        })
    };
    until("it runs", SOON, async || keeper.health().await.running == 1).await;
    dropped.abort();
    until("it went away", SOON, async || keeper.health().await.running == 0).await;
    quiet(&keeper).await;
    let ran: Ran<u64> = once.run("k", &1, async |attempt| Ok(attempt.attempt())).await;
    assert_eq!(ran.unwrap(), 3, "the third attempt");
}

#[tokio::test]
async fn work_is_dropped_when_its_claim_is_lost() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("run").unwrap();
    let work = async |_attempt| {
        clock.advance(LEASE);
        std::future::pending().await
    };
    let lost: Ran<u32> = tokio::time::timeout(SOON, once.run("k", &1, work)).await.unwrap();
    let Err(RunError::Lost(error)) = lost else { panic!("{lost:?}") };
    assert!(error.is_lost() && error.to_string().contains("the lease ended"), "{error}");
}

/// C13: the value is there, and the caller is told that it is not the one that counts.
#[tokio::test]
async fn c13_work_that_was_taken_over_before_it_finished_is_told_so() {
    let (keeper, other, clock) = two().await;
    let (once, others) = (keeper.once("run").unwrap(), other.once("run").unwrap());
    let work = async |_attempt| {
        clock.advance(LEASE + ms(1));
        let request = lockkeeper::fingerprint::of_value(&1).unwrap();
        let Begun::Claimed(taken) = others.begin("k", request).await.unwrap() else { panic!() };
        taken.complete(whole("5")).await.unwrap();
        Ok(4)
    };
    let ran: Ran<u32> = once.run("k", &1, work).await;
    let Err(RunError::Unrecorded { value, error }) = ran else { panic!("{ran:?}") };
    assert!(value == 4 && error.is_lost(), "{error}");
    let replayed: Ran<u32> = once.run("k", &1, async |_| Ok(6)).await;
    assert_eq!(replayed.unwrap(), 5, "the other's result is untouched");
}

/// C32: exactly at the cap it is kept; above, the first caller has it, and nobody runs it again.
#[tokio::test]
async fn c32_a_result_above_the_cap_is_not_kept_and_not_run_again() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("run").unwrap().max_result(12);
    for (key, length, is_kept) in [("at", 10, true), ("above", 11, false), ("far_above", 120, false)] {
        let text = "x".repeat(length);
        let ran: Ran<String> = once.run(key, &1, async |_| Ok(text.clone())).await;
        assert_eq!(ran.unwrap(), text, "the first caller has it in full");
        let again: Ran<String> = once.run(key, &1, async |_| panic!("run again")).await;
        match again {
            Ok(kept) => assert!(is_kept && kept == text),
            Err(error) => assert!(matches!(error, RunError::NotKept) && !is_kept, "{error:?}"),
        }
    }
    let attempt = claim(&once, "by_hand").await;
    attempt.complete(whole("thirteen byte")).await.unwrap();
    let Begun::Completed(replay) = begin(&once, "by_hand").await else { panic!() };
    assert!(!replay.stored.is_whole() && replay.stored.bytes().is_empty());
}

#[tokio::test]
async fn a_value_that_cannot_be_written_is_not_kept_and_not_run_again() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("run").unwrap();
    // JSON has no such member.
    let value = BTreeMap::from([(vec![1], 2)]);
    let ran: Ran<BTreeMap<Vec<u8>, u32>> = once.run("k", &1, async |_| Ok(value.clone())).await;
    assert_eq!(ran.unwrap(), value);
    let again: Ran<BTreeMap<Vec<u8>, u32>> = once.run("k", &1, async |_| panic!("run again")).await;
    assert!(matches!(again, Err(RunError::NotKept)), "{again:?}");
}

#[tokio::test]
async fn a_result_of_another_type_is_an_error_and_not_run_again() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("run").unwrap();
    let ran: Ran<u32> = once.run("k", &1, async |_| Ok(5)).await;
    assert_eq!(ran.unwrap(), 5);
    let other: Ran<String> = once.run("k", &1, async |_| panic!("run again")).await;
    assert!(matches!(other, Err(RunError::Result(_))), "{other:?}");
}

#[tokio::test]
async fn work_may_end_its_attempt_by_itself() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("run").unwrap();
    let work = async |attempt: lockkeeper::Attempt| {
        attempt.complete(whole("\"stored\"")).await.unwrap();
        Ok("returned".to_owned())
    };
    let ran: Ran<String> = once.run("k", &1, work).await;
    assert_eq!(ran.unwrap(), "returned");
    let ran: Ran<String> = once.run("k", &1, async |_| panic!("run again")).await;
    assert_eq!(ran.unwrap(), "stored");
}

/// The future can be spawned, and waits where it is told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_who_wait_are_answered_one_run() {
    let keeper = lockkeeper::Keeper::connect("memory://").await.unwrap();
    let (once, runs) = (keeper.once("run").unwrap().wait(secs(20)), Arc::new(AtomicU32::new(0)));
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let (once, runs) = (once.clone(), runs.clone());
            tokio::spawn(async move {
                let work = async |_| {
                    tokio::time::sleep(ms(20)).await;
                    Ok::<_, String>(runs.fetch_add(1, Ordering::SeqCst))
                };
                once.run("k", &1, work).await.unwrap()
            })
        })
        .collect();
    for caller in callers {
        assert_eq!(ends(caller).await, 0);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
