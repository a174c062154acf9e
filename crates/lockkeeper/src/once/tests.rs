//! What only this crate can see of an attempt.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::idempotency::{Fingerprint, OnCrash, Phase, Stored};
use lockkeeper_core::{Error, ErrorKind, ManualClock, MemoryStore};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::finish::Finish;
use super::run;
use super::{Attempt, Begun, Once, RunError};
use crate::Keeper;
use crate::background::MAX_CHORES;

const LEASE: Duration = Duration::from_secs(30);
const HOLD: OnCrash = OnCrash::Hold(Duration::from_secs(600));
const SOON: Duration = Duration::from_secs(5);

async fn stepped() -> (Keeper, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let builder = Keeper::builder().memory_store(store).clock(clock.clone()).on_current_runtime();
    (builder.connect().await.unwrap(), clock)
}

async fn claim(once: &Once) -> Attempt {
    match once.begin_or_fail(b"k", Fingerprint::new([1; 32])).await.unwrap() {
        Begun::Claimed(attempt) => attempt,
        other => panic!("not claimed: {other:?}"),
    }
}

async fn phase(once: &Once) -> Option<Phase> {
    once.inspect("k").await.unwrap().map(|seen| seen.phase)
}

/// Its claim was lost between the answer and the first poll of its work.
#[tokio::test]
async fn work_that_was_never_polled_had_no_effect() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("unpolled").unwrap().on_crash(HOLD);
    let attempt = claim(&once).await;
    clock.advance(LEASE);
    let ran: Result<u32, RunError<u32, String>> = run::run(attempt, async |_| panic!("it was polled")).await;
    assert!(matches!(ran, Err(RunError::Lost(_))), "{ran:?}");
    assert_eq!(phase(&once).await, Some(Phase::Open));
}

/// Its future was dropped between the answer and the first poll of its work.
#[tokio::test]
async fn an_attempt_that_is_dropped_before_its_work_began_had_no_effect() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("unstarted").unwrap().on_crash(HOLD);
    drop(claim(&once).await);
    let given_back = async {
        while phase(&once).await != Some(Phase::Open) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, given_back).await.expect("it is given back");
}

/// Ends that are being recorded by their callers take no room from what has to be given back.
#[tokio::test]
async fn those_who_are_at_something_take_no_place_of_a_chore() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("busy").unwrap();
    let busy: Vec<_> = (0..MAX_CHORES).map(|_| keeper.inner.background.busy()).collect();
    let attempt = claim(&once).await;
    attempt.held().started();
    drop(attempt);
    let given_back = async {
        while phase(&once).await != Some(Phase::Lapsed) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, given_back).await.expect("it is given back");
    assert_eq!(keeper.inner.background.pending(), MAX_CHORES);
    drop(busy);
    assert_eq!(keeper.inner.background.pending(), 0);
}

/// Every attempt that was claimed is counted as completed, abandoned or lost, also where nobody goes on with its end.
#[tokio::test]
async fn an_end_that_nobody_goes_on_with_is_counted() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("uncounted").unwrap();
    let attempt = claim(&once).await;
    let held = attempt.held();
    assert!(held.settle());
    let trouble = Error::new(ErrorKind::Unreachable, "complete", "away");
    let (tell, answered) = tokio::sync::oneshot::channel();
    let finish = Finish::new(held, &Stored::nothing(), trouble, Some(tell));
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || drop(finish));
    let seen = recorder.snapshotter().snapshot().into_vec();
    let ends = seen.iter().filter(|(key, ..)| key.key().name() == "redis_once_complete_total");
    let counted: Vec<_> = ends.map(|(.., value)| value).collect();
    assert_eq!(counted, [&DebugValue::Counter(1)]);
    let error = answered.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("not tried again"), "{error}");
    assert!(attempt.loss().is_some() && keeper.inner.onces.running() == 0);
}
