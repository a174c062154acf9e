//! Permits on the memory store, under a clock that is stepped.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::core::{ManualClock, MemoryStore};
use lockkeeper::{
    AcquiredPermit, Concurrency, Error, ErrorKind, Keeper, LossReason, MAX_PERMITS, Permit, Released,
};
use lockkeeper_testkit::wait::until;
use support::{SOON, in_line, ms, quiet, secs, stepped};
use tokio::task::JoinHandle;

async fn permit(limit: &Concurrency) -> Permit {
    limit.try_acquire().await.unwrap().or_full().unwrap()
}

fn waits(limit: &Concurrency) -> JoinHandle<Result<AcquiredPermit, Error>> {
    let limit = limit.clone();
    tokio::spawn(async move { limit.acquire().await })
}

async fn got(task: JoinHandle<Result<AcquiredPermit, Error>>) -> Permit {
    tokio::time::timeout(SOON, task).await.expect("an answer").unwrap().unwrap().or_full().unwrap()
}

async fn lost(permit: &Permit) -> LossReason {
    tokio::time::timeout(SOON, permit.lost()).await.expect("it is lost")
}

async fn ends<T>(task: JoinHandle<T>) -> T {
    tokio::time::timeout(SOON, task).await.expect("it ends").unwrap()
}

async fn held(limit: &Concurrency) -> usize {
    limit.holders().await.unwrap().len()
}

/// Two keepers on one store, as two processes would be.
async fn two() -> (Keeper, Keeper, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let keeper =
        async || Keeper::builder().memory_store(store.clone()).clock(clock.clone()).connect().await.unwrap();
    (keeper().await, keeper().await, clock)
}

#[tokio::test]
async fn limits_names_and_leases_are_checked_before_anything_is_sent() {
    let (keeper, _clock) = stepped().await;
    for (name, limit, says) in [
        ("a", 0, "0 permits at once: at least 1, at most 10000"),
        ("a", MAX_PERMITS + 1, "10001 permits at once: at least 1, at most 10000"),
        ("", 1, "the name is empty"),
        ("~permit:a", 1, "reserved"),
    ] {
        let error = keeper.concurrency(name, limit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadArgument);
        assert!(error.to_string().contains(says), "{error}");
    }
    for lease in [Duration::ZERO, ms(50), Duration::MAX] {
        let error = keeper.concurrency("a", 1).unwrap().lease(lease).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadArgument, "{error}");
    }
    assert_eq!(keeper.concurrency("a", MAX_PERMITS).unwrap().limit(), MAX_PERMITS);
}

#[tokio::test]
async fn as_many_as_the_limit_hold_and_full_says_how_many_and_until_when() {
    let (keeper, clock) = stepped().await;
    let limit = keeper.concurrency("a", 2).unwrap().lease(secs(10));
    let one = permit(&limit).await;
    clock.advance(secs(1));
    let two = permit(&limit).await;
    let AcquiredPermit::Full(full) = limit.try_acquire().await.unwrap() else { panic!("three of two") };
    assert_eq!((full.held, full.limit, full.retry_after), (2, 2, secs(9)));
    assert_eq!(full.to_string(), "2 of 2 permits are held, the first lease ends in 9s");
    let error = limit.try_acquire().await.unwrap().or_full().unwrap_err();
    assert!(error.is_busy() && error.to_string().contains("2 of 2"), "{error}");
    assert_eq!(keeper.health().await.permits, 2);
    let holders = limit.holders().await.unwrap();
    assert_eq!((&holders[0].holder, &holders[1].holder), (&one.holder(), &two.holder()));

    assert_eq!(one.clone().release().await.unwrap(), Released::Released);
    assert!(!one.is_valid() && one.remaining().is_zero() && one.loss() == Some(LossReason::Released));
    assert_eq!(one.release().await.unwrap(), Released::Released, "releasing twice is harmless");
    assert_eq!(held(&limit).await, 1, "nobody else's was touched");
    let _three = permit(&limit).await;
    assert_eq!(keeper.lock("a").unwrap().try_acquire().await.unwrap().held().map(|_| ()), Some(()));
}

#[tokio::test]
async fn l122_a_permit_is_invalid_by_its_own_clock_before_the_server_lets_anyone_in() {
    let lease = secs(10);
    let deadline = lease - lease / 100 - ms(2);
    for (step, is_valid) in [(deadline - Duration::from_micros(1), true), (deadline, false)] {
        let (keeper, clock) = stepped().await;
        let held = permit(&keeper.concurrency("a", 1).unwrap().lease(lease)).await;
        clock.advance(step);
        assert_eq!(held.is_valid(), is_valid, "after {step:?}");
    }
}

#[tokio::test]
async fn it_is_renewed_at_a_third_of_its_lease_and_lost_at_the_bound_on_holding() {
    let (keeper, clock) = stepped().await;
    let limit = keeper.concurrency("a", 1).unwrap().lease(secs(3)).max_hold(secs(5));
    let held = permit(&limit).await;
    for second in 1..5 {
        clock.advance(secs(1));
        let left = async || limit.holders().await.unwrap()[0].remaining;
        until(&format!("renewed in second {second}"), SOON, async || left().await == secs(3)).await;
        assert!(held.is_valid());
    }
    clock.advance(secs(1));
    assert_eq!(lost(&held).await, LossReason::MaxHold);
    assert_eq!(self::held(&limit).await, 1, "whoever lost it may still be at work");
    drop(held);
    until("given back", SOON, async || self::held(&limit).await == 0).await;
    assert_eq!(keeper.health().await.permits, 0);
}

#[tokio::test]
async fn a_permit_that_was_removed_is_lost_with_the_next_renewal() {
    let (clock, name) = (Arc::new(ManualClock::default()), "a");
    let store = MemoryStore::new(clock.clone());
    let keeper = Keeper::builder().memory_store(store.clone()).clock(clock.clone()).connect().await.unwrap();
    let held = permit(&keeper.concurrency(name, 1).unwrap().lease(secs(30))).await;
    let key = lockkeeper::Key::new(&lockkeeper::Prefix::new("lock:").unwrap(), name).unwrap();
    store.tamper(&key, |cell: &mut lockkeeper::core::lock::permit::PermitCell| *cell = Default::default());
    clock.advance(secs(10));
    assert_eq!(lost(&held).await, LossReason::KeyGone);
    assert!(!held.is_valid());
}

#[tokio::test]
async fn a_dead_holders_permit_is_back_when_its_lease_has_ended() {
    let (keeper, dead, clock) = two().await;
    let theirs = dead.concurrency("a", 1).unwrap().lease(secs(10));
    let held = permit(&theirs).await;
    assert_eq!(dead.close(ms(0)).await.still_held, 1);
    assert_eq!(held.loss(), Some(LossReason::KeeperClosed));
    std::mem::forget(held);

    let waiter = waits(&keeper.concurrency("a", 1).unwrap().lease(secs(10)).wait_forever());
    in_line(&keeper, 1).await;
    clock.advance(ms(9_999));
    assert_eq!(self::held(&theirs).await, 1);
    assert!(!waiter.is_finished());
    clock.advance(ms(6));
    assert!(got(waiter).await.is_valid());
}

/// The clock stands still: nobody polls. So whoever is served was woken by a release.
#[tokio::test]
async fn who_waits_is_served_first_come_first_served_and_woken_by_a_release() {
    let (keeper, _clock) = stepped().await;
    let limit = keeper.concurrency("a", 1).unwrap();
    let mut holder = permit(&limit).await;
    let mut waiters = Vec::new();
    for number in 1..=5 {
        waiters.push(waits(&limit));
        in_line(&keeper, number).await;
    }
    for (number, waiter) in waiters.into_iter().enumerate() {
        // By hand, and by dropping.
        if number % 2 == 0 {
            drop(holder);
        } else {
            holder.release().await.unwrap();
        }
        holder = got(waiter).await;
        assert_eq!(keeper.health().await.waiting, 4 - number, "one at a time, in order");
        assert_eq!(held(&limit).await, 1);
    }
}

#[tokio::test]
async fn a_waiter_that_goes_away_leaves_the_line_and_delays_nobody() {
    let (keeper, _clock) = stepped().await;
    let limit = keeper.concurrency("a", 1).unwrap();
    let holder = permit(&limit).await;
    let (front, middle, last) = (waits(&limit), waits(&limit), waits(&limit));
    in_line(&keeper, 3).await;
    front.abort();
    in_line(&keeper, 2).await;
    middle.abort();
    in_line(&keeper, 1).await;
    holder.release().await.unwrap();
    assert!(got(last).await.is_valid());
}

/// A task that holds the front of the line and is busy with something else.
#[tokio::test]
async fn a_front_that_is_not_polled_is_passed_over() {
    let (keeper, clock) = stepped().await;
    let limit = keeper.concurrency("a", 1).unwrap().wait_forever();
    let holder = permit(&limit).await;
    let mut front = Box::pin(limit.acquire());
    tokio::select! {
        biased;
        _ = &mut front => panic!("two of one"),
        () = std::future::ready(()) => {}
    }
    let behind = waits(&limit);
    in_line(&keeper, 2).await;
    holder.release().await.unwrap();
    clock.advance(ms(999));
    assert_eq!(held(&limit).await, 0, "it is the front's to be asked for");
    clock.advance(ms(1));
    assert!(got(behind).await.is_valid());
    // The permit was dropped, and the front comes at last.
    clock.advance(ms(100));
    let late = tokio::time::timeout(SOON, front).await.expect("it still waits").unwrap();
    assert!(late.held().is_some());
}

/// Two releases at once wake the first, and the second one asks when it has the turn.
#[tokio::test]
async fn two_releases_serve_two_who_wait() {
    let (keeper, _clock) = stepped().await;
    let limit = keeper.concurrency("a", 2).unwrap();
    let (one, two) = (permit(&limit).await, permit(&limit).await);
    let (first, second) = (waits(&limit), waits(&limit));
    in_line(&keeper, 2).await;
    let (released, too) = tokio::join!(one.release(), two.release());
    assert_eq!((released.unwrap(), too.unwrap()), (Released::Released, Released::Released));
    let _both = (got(first).await, got(second).await);
    assert_eq!(held(&limit).await, 2);
}

#[tokio::test]
async fn patience_ends_with_full_at_the_front_and_behind_it() {
    let (keeper, clock) = stepped().await;
    let limit = keeper.concurrency("a", 1).unwrap().wait(secs(5));
    let _holder = permit(&limit).await;
    let waiters = [waits(&limit), waits(&limit), waits(&limit)];
    in_line(&keeper, 3).await;
    clock.advance(secs(5));
    for waiter in waiters {
        let AcquiredPermit::Full(full) = ends(waiter).await.unwrap() else { panic!("two of one") };
        assert_eq!((full.held, full.limit), (1, 1));
    }
    in_line(&keeper, 0).await;
    let at_once = limit.wait(Duration::ZERO).acquire().await.unwrap();
    assert!(matches!(at_once, AcquiredPermit::Full(_)));
}

#[tokio::test]
async fn dropping_outside_of_a_runtime_gives_back() {
    let (keeper, _clock) = stepped().await;
    let limit = keeper.concurrency("a", 1).unwrap();
    let held = permit(&limit).await;
    let clone = held.clone();
    std::thread::spawn(move || drop(held)).join().unwrap();
    assert!(clone.is_valid(), "the last clone releases, no other");
    std::thread::spawn(move || drop(clone)).join().unwrap();
    quiet(&keeper).await;
    assert_eq!(self::held(&limit).await, 0);
}

#[tokio::test]
async fn closing_the_keeper_ends_waiting_and_tells_holders() {
    let (keeper, _clock) = stepped().await;
    let limit = keeper.concurrency("a", 1).unwrap();
    let held = permit(&limit).await;
    let waiters = [waits(&limit), waits(&limit)];
    in_line(&keeper, 2).await;
    drop(permit(&keeper.concurrency("b", 1).unwrap()).await);
    let closed = keeper.close(secs(5)).await;
    assert_eq!((closed.still_held, closed.undone), (1, 0));
    assert_eq!(lost(&held).await, LossReason::KeeperClosed);
    for waiter in waiters {
        assert_eq!(ends(waiter).await.unwrap_err().kind(), ErrorKind::Closed);
    }
    assert_eq!(self::held(&keeper.concurrency("b", 1).unwrap()).await, 0, "drained");
    assert_eq!(limit.acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(held.release().await.unwrap(), Released::Released, "by hand, afterwards");
    assert_eq!(self::held(&limit).await, 0);
}

#[tokio::test]
async fn run_releases_and_is_cancelled_when_the_permit_is_lost() {
    let (keeper, clock) = stepped().await;
    let limit = keeper.concurrency("a", 1).unwrap().lease(secs(10)).max_hold(secs(20));
    assert!(limit.run(async |permit| permit.is_valid()).await.unwrap());
    assert_eq!(held(&limit).await, 0);
    let work = tokio::spawn({
        let limit = limit.clone();
        async move { limit.run(async |_permit| std::future::pending::<()>().await).await }
    });
    until("at work", SOON, async || keeper.health().await.permits == 1).await;
    clock.advance(secs(20));
    let error = ends(work).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    quiet(&keeper).await;
    assert_eq!(held(&limit).await, 0);
    assert_eq!(
        limit.wait(Duration::ZERO).run(async |permit| permit.release().await).await.unwrap().unwrap(),
        Released::Released
    );
}

#[tokio::test]
async fn a_lower_limit_evicts_nobody_and_refuses_until_fewer_are_held() {
    let (keeper, other, _clock) = two().await;
    let (three, one) = (keeper.concurrency("a", 3).unwrap(), other.concurrency("a", 1).unwrap());
    let mut permits = vec![permit(&three).await, permit(&three).await, permit(&three).await];
    while let Some(held) = permits.pop() {
        let AcquiredPermit::Full(full) = one.try_acquire().await.unwrap() else { panic!("let in") };
        assert_eq!((full.held as usize, full.limit), (permits.len() + 1, 1));
        assert!(permits.iter().all(Permit::is_valid), "nobody is evicted");
        held.release().await.unwrap();
    }
    assert!(permit(&one).await.is_valid());
}

/// By the names of locks, in a class of their own; each holder once.
#[tokio::test]
async fn permits_are_counted_as_locks_are() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let _local = metrics::set_default_local_recorder(&recorder);
    let (keeper, _clock) = stepped().await;
    let limit = keeper.lock_class("exports").unwrap().concurrency("a", 1).unwrap();
    let held = permit(&limit).await;
    assert!(matches!(limit.try_acquire().await.unwrap(), AcquiredPermit::Full(_)));
    held.release().await.unwrap();
    let seen = recorder.snapshotter().snapshot().into_vec();
    let of = |name: &str, label: &str| {
        let is_it = |key: &metrics::Key| {
            let mut labels = key.labels().map(metrics::Label::value);
            key.name() == name
                && labels.clone().any(|value| value == "exports")
                && labels.any(|value| value == label)
        };
        let found = seen.iter().filter(|(key, ..)| is_it(key.key()));
        found.map(|(.., value)| format!("{value:?}")).collect::<Vec<_>>().join(" ")
    };
    let one = "Counter(1)";
    assert_eq!(of("redis_lock_acquire_total", "none"), one);
    assert_eq!(of("redis_lock_acquire_total", "busy"), one);
    assert_eq!(of("redis_lock_release_total", "none"), one);
    assert_eq!(of("redis_lock_held", "exports"), "Gauge(0.0)");
}
