//! Attempts and their ends, on the memory store under a clock that is stepped.

use lockkeeper::core::MemoryStore;
use lockkeeper::core::idempotency::OnceCell;
use lockkeeper::core::{Clock, ManualClock, Timestamp};
use lockkeeper::{Begun, Closed, ErrorKind, Keeper, Key, LossReason, OncePhase, Prefix};
use lockkeeper_testkit::wait::until;
use std::sync::Arc;

use crate::common::{LEASE, begin, claim, idle, lost, replay, request, running, two, whole};
use crate::support::{SOON, ms, quiet, secs, stepped};

#[tokio::test]
async fn c2_who_comes_while_it_runs_is_told_and_who_comes_later_is_answered() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("memory").unwrap();
    let attempt = claim(&once, "k").await;
    assert_eq!((attempt.attempt(), attempt.is_takeover(), attempt.is_valid()), (1, false, true));
    clock.advance(secs(1));
    let Begun::Running { holder, attempt: number, retry_after } = begin(&once, "k").await else { panic!() };
    assert_eq!((holder, number, retry_after), (attempt.holder(), 1, LEASE - secs(1)));
    let fence = attempt.fence();
    let completed = attempt.complete(whole("201")).await.unwrap();
    assert_eq!(completed.remaining, secs(24 * 3600));
    let replay = replay(&once, "k").await;
    assert_eq!((replay.stored, replay.fence), (whole("201"), fence));
    idle(&keeper, "at the end").await;
}

/// C44: a replay just before the end, which lengthens nothing; then it runs afresh.
#[tokio::test]
async fn c44_the_retention_is_counted_from_the_end_and_a_replay_does_not_lengthen_it() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("memory").unwrap().retain(secs(100));
    claim(&once, "k").await.complete(whole("first")).await.unwrap();
    clock.advance(secs(99));
    let seen = replay(&once, "k").await;
    assert_eq!((seen.stored, seen.remaining), (whole("first"), secs(1)));
    clock.advance(secs(1));
    let attempt = claim(&once, "k").await;
    assert_eq!((attempt.attempt(), attempt.is_takeover()), (1, false), "nothing is remembered");
}

#[tokio::test]
async fn an_attempt_is_renewed_and_nothing_renews_it_after_its_end() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("memory").unwrap();
    let attempt = claim(&once, "k").await;
    for third in 0..9 {
        let left = attempt.remaining();
        clock.advance(secs(10));
        until("renewed", SOON, async || attempt.remaining() > left - secs(10)).await;
        assert!(attempt.is_valid(), "{third}");
    }
    attempt.abandon().await.unwrap();
    quiet(&keeper).await;
    let seen = once.inspect("k").await.unwrap().unwrap();
    assert_eq!((seen.phase, seen.attempt), (OncePhase::Open, 1));
    clock.advance(secs(40));
    let later = once.inspect("k").await.unwrap().unwrap();
    assert_eq!(later.remaining, seen.remaining - secs(40), "touched after its end");
}

#[tokio::test]
async fn the_bound_on_the_running_time_ends_it() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("memory").unwrap().max_hold(secs(15));
    let attempt = claim(&once, "k").await;
    let left = attempt.remaining();
    clock.advance(secs(10));
    until("renewed", SOON, async || attempt.remaining() > left - secs(10)).await;
    clock.advance(secs(5));
    assert_eq!(lost(&attempt).await, LossReason::MaxHold);
    assert!(!attempt.is_valid() && attempt.remaining().is_zero());
}

/// C13 and C11: taken over once, under a greater fence; who was late is told, and changes nothing.
#[tokio::test]
async fn c11_c13_a_lapsed_attempt_is_taken_over_once_and_its_late_end_is_refused() {
    let (keeper, other, clock) = two().await;
    let (once, others) = (keeper.once("memory").unwrap(), other.once("memory").unwrap());
    let late = claim(&once, "k").await;
    // In one step: no renewal comes in between.
    clock.advance(LEASE + ms(1));
    let (one, two) = tokio::join!(begin(&once, "k"), begin(&others, "k"));
    let (taken, told) = if matches!(one, Begun::Claimed(_)) { (one, two) } else { (two, one) };
    let Begun::Claimed(taken) = taken else { panic!("nobody took it over: {taken:?}") };
    assert!(matches!(told, Begun::Running { attempt: 2, .. }), "{told:?}");
    assert_eq!((taken.attempt(), taken.is_takeover()), (2, true));
    assert!(taken.fence() > late.fence());
    assert_eq!(lost(&late).await, LossReason::Expired);
    let error = late.clone().complete(whole("late")).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("taken over by"), "{error}");
    assert!(late.abandon().await.unwrap_err().is_lost());
    taken.complete(whole("in time")).await.unwrap();
    assert_eq!(replay(&once, "k").await.stored, whole("in time"));
}

/// C10: who acts on a look that is stale is answered what is true by now.
#[tokio::test]
async fn c10_a_stale_look_takes_nothing_over() {
    let (keeper, other, clock) = two().await;
    let (once, others) = (keeper.once("memory").unwrap(), other.once("memory").unwrap());
    let attempt = claim(&once, "k").await;
    running(&others, "k").await;
    attempt.complete(whole("a")).await.unwrap();
    clock.advance(LEASE * 2);
    let replay = replay(&others, "k").await;
    assert_eq!(replay.stored, whole("a"));
}

#[tokio::test]
async fn a_lapsed_attempt_that_nobody_took_over_can_be_completed() {
    let (keeper, clock) = stepped().await;
    let once = keeper.once("memory").unwrap();
    let attempt = claim(&once, "k").await;
    clock.advance(LEASE + ms(1));
    assert_eq!(lost(&attempt).await, LossReason::Expired);
    attempt.complete(whole("late, but alone")).await.unwrap();
    assert_eq!(replay(&once, "k").await.stored, whole("late, but alone"));
}

/// C49: the first copy of a request arrives after the second one has run.
#[tokio::test]
async fn c49_a_delayed_copy_is_answered_and_not_run() {
    let (keeper, other, clock) = two().await;
    claim(&keeper.once("memory").unwrap(), "k").await.complete(whole("of the retry")).await.unwrap();
    clock.advance(secs(12));
    assert_eq!(replay(&other.once("memory").unwrap(), "k").await.stored, whole("of the retry"));
}

/// C47: only the server's clock decides.
#[tokio::test]
async fn c47_a_callers_wall_clock_decides_nothing() {
    let servers = Arc::new(ManualClock::default());
    let store = MemoryStore::new(servers.clone());
    let now = servers.wall().as_micros();
    let keeper = async |wall: u64| {
        let clock = ManualClock::new(Timestamp::from_micros(wall));
        Keeper::builder().memory_store(store.clone()).clock(Arc::new(clock)).connect().await.unwrap()
    };
    let hour = 3_600_000_000;
    let (ahead, behind) = (keeper(now + hour).await, keeper(now - hour).await);
    let (ahead, behind) = (ahead.once("memory").unwrap(), behind.once("memory").unwrap());
    let attempt = claim(&behind, "k").await;
    assert_eq!(running(&ahead, "k").await, LEASE, "no early takeover");
    attempt.complete(whole("done")).await.unwrap();
    servers.advance(secs(24 * 3600 - 1));
    assert_eq!(replay(&ahead, "k").await.remaining, secs(1), "no late end");
    servers.advance(secs(1));
    assert_eq!(claim(&ahead, "k").await.attempt(), 1);
}

#[tokio::test]
async fn clones_share_one_end() {
    let (keeper, _clock) = stepped().await;
    let once = keeper.once("memory").unwrap();
    let attempt = claim(&once, "k").await;
    let clone = attempt.clone();
    drop(attempt.clone());
    assert!(clone.is_valid(), "a clone that is dropped ends nothing");
    attempt.complete(whole("one")).await.unwrap();
    assert_eq!(clone.loss(), Some(LossReason::Released));
    let error = clone.clone().complete(whole("two")).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("ended already"), "{error}");
    assert!(clone.abandon().await.is_err());
    assert_eq!(replay(&once, "k").await.stored, whole("one"));
}

#[tokio::test]
async fn a_closed_keeper_begins_nothing_and_tells_those_who_run() {
    let (keeper, other, _clock) = two().await;
    let once = keeper.once("memory").unwrap();
    let attempt = claim(&once, "k").await;
    let Closed { still_held, undone, .. } = keeper.close(ms(100)).await;
    assert_eq!((still_held, undone), (1, 0));
    assert_eq!(lost(&attempt).await, LossReason::KeeperClosed);
    assert_eq!(once.begin("other", request()).await.unwrap_err().kind(), ErrorKind::Closed);
    running(&other.once("memory").unwrap(), "k").await;
    attempt.complete(whole("by hand, afterwards")).await.unwrap();
    assert_eq!(replay(&other.once("memory").unwrap(), "k").await.stored, whole("by hand, afterwards"));
}

/// Evicted, flushed, or damaged by others.
#[tokio::test]
async fn a_record_that_is_gone_is_never_created_again_by_its_attempt() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let keeper = Keeper::builder().memory_store(store.clone()).clock(clock.clone()).connect().await.unwrap();
    let once = keeper.once("memory").unwrap();
    let key = Key::new(&Prefix::new("once:").unwrap(), "memory:k").unwrap();
    let attempt = claim(&once, "k").await;
    store.tamper(&key, |cell: &mut OnceCell| *cell = OnceCell::Absent);
    clock.advance(secs(10));
    assert_eq!(lost(&attempt).await, LossReason::KeyGone, "noticed by the next renewal");
    let error = attempt.complete(whole("lost")).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("its record is gone"), "{error}");
    assert!(once.inspect("k").await.unwrap().is_none());
    store.tamper(&key, |cell: &mut OnceCell| *cell = OnceCell::WrongType);
    let error = once.begin("k", request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
}
