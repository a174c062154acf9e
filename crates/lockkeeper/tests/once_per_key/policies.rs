//! What becomes of a key whose attempt went away, and what operators do about it.

use lockkeeper::core::MemoryStore;
use lockkeeper::{Begun, Fence, Holder, ManualClock, OnCrash, Once, OncePhase, Resolution, ResolveReply};
use std::sync::Arc;

use crate::common::{LEASE, begin, claim, replay, running, two, whole};
use crate::support::{ms, quiet, secs, stepped};

async fn unknown(once: &Once) -> (Holder, Fence) {
    match begin(once, "k").await {
        Begun::Unknown { holder, fence, .. } => (holder, fence),
        other => panic!("known: {other:?}"),
    }
}

/// C17: an attempt that is dropped ends at once, not with its lease.
#[tokio::test]
async fn c17_a_dropped_attempt_is_run_again_at_once() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("policies").unwrap();
    drop(claim(&once, "k").await);
    quiet(&keeper).await;
    let again = claim(&once, "k").await;
    assert_eq!((again.attempt(), again.is_takeover()), (2, true));
}

/// C7 on the memory store: not before the lease has ended, then by the next caller.
#[tokio::test]
async fn c7_a_claim_of_a_process_that_died_blocks_until_its_lease_ends() {
    let (keeper, other, clock) = two().await;
    let others = other.once("policies").unwrap();
    let attempt = claim(&keeper.once("policies").unwrap(), "k").await;
    assert!(running(&others, "k").await <= LEASE);
    clock.advance(LEASE);
    let again = claim(&others, "k").await;
    assert_eq!((again.attempt(), again.is_takeover()), (2, true));
    drop(attempt);
    quiet(&keeper).await;
    running(&others, "k").await;
}

#[tokio::test]
async fn c8_an_unknown_outcome_is_held_until_the_time_is_over() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("policies").unwrap().on_crash(OnCrash::Hold(secs(600)));
    let attempt = claim(&once, "k").await;
    let (holder, fence) = (attempt.holder(), attempt.fence());
    drop(attempt);
    quiet(&keeper).await;
    assert_eq!(unknown(&once).await, (holder, fence));
    clock.advance(secs(599));
    assert_eq!(unknown(&once).await.1, fence);
    assert_eq!(once.inspect("k").await.unwrap().unwrap().phase, OncePhase::Unknown);
    clock.advance(secs(1));
    let again = claim(&once, "k").await;
    assert_eq!((again.attempt(), again.is_takeover()), (2, true));
}

#[tokio::test]
async fn c8_an_operator_resolves_exactly_what_was_shown() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("policies").unwrap().on_crash(OnCrash::Hold(secs(600)));
    assert_eq!(once.resolve("k", Fence::new(1), Resolution::Undone).await.unwrap(), ResolveReply::Gone);
    let attempt = claim(&once, "k").await;
    let fence = attempt.fence();
    let early = once.resolve("k", fence, Resolution::Undone).await.unwrap();
    assert!(matches!(early, ResolveReply::Running { .. }), "{early:?}");
    drop(attempt);
    quiet(&keeper).await;
    let other = once.resolve("k", Fence::new(1), Resolution::Undone).await.unwrap();
    assert_eq!(other, ResolveReply::Changed(fence));
    assert_eq!(once.resolve("k", fence, Resolution::Undone).await.unwrap(), ResolveReply::Resolved);
    let again = claim(&once, "k").await;
    assert!(again.fence() > fence && !again.is_takeover());
    let fence = again.fence();
    drop(again);
    quiet(&keeper).await;
    let done = Resolution::Completed(whole("it was paid"));
    assert_eq!(once.resolve("k", fence, done.clone()).await.unwrap(), ResolveReply::Resolved);
    assert_eq!(once.resolve("k", fence, done).await.unwrap(), ResolveReply::Settled);
    assert_eq!(replay(&once, "k").await.stored, whole("it was paid"));
}

/// Nothing was done: nothing is unknown.
#[tokio::test]
async fn an_attempt_without_an_effect_leaves_the_key_open_also_where_outcomes_are_held() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("policies").unwrap().on_crash(OnCrash::Hold(secs(600)));
    claim(&once, "k").await.abandon().await.unwrap();
    let again = claim(&once, "k").await;
    assert_eq!((again.attempt(), again.is_takeover()), (2, false));
}

/// C7: the second attempt, which had no effect, knows nothing of the first one's.
#[tokio::test]
async fn c7_a_takeover_without_an_effect_lets_the_crash_before_it_not_be_forgotten() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("policies").unwrap();
    let crashed = claim(&once, "k").await;
    clock.advance(LEASE + ms(1));
    for number in 2..5 {
        let again = claim(&once, "k").await;
        assert_eq!((again.attempt(), again.is_takeover()), (number, true));
        again.abandon().await.unwrap();
        let other = once.begin("k", lockkeeper::fingerprint::of_bytes("another")).await.unwrap();
        assert!(matches!(other, Begun::DifferentRequest), "{other:?}");
    }
    assert!(crashed.complete(whole("too late")).await.unwrap_err().is_lost());
    claim(&once, "k").await.complete(whole("done")).await.unwrap();
    assert_eq!(replay(&once, "k").await.stored, whole("done"));
}

/// An operator's word counts, also against the attempt when it comes back.
#[tokio::test]
async fn an_attempt_that_an_operator_resolved_is_told_when_it_comes_back() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let keeper = lockkeeper::Keeper::builder();
    let keeper = keeper.memory_store(store).clock(clock.clone()).connect().await.unwrap();
    let once = keeper.once("policies").unwrap().on_crash(OnCrash::Hold(secs(600)));
    let attempt = claim(&once, "k").await;
    clock.advance(LEASE + ms(1));
    let resolved = once.resolve("k", attempt.fence(), Resolution::Undone).await.unwrap();
    assert_eq!(resolved, ResolveReply::Resolved);
    let error = attempt.complete(whole("too late")).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    assert_eq!(once.inspect("k").await.unwrap().unwrap().phase, OncePhase::Open);
}
