//! Guards, watchdog and waiting on the memory store, with a clock that the tests step.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::core::Clock;
use lockkeeper::{Acquired, ErrorKind, Extended, ForceReleased, Keeper, LossReason, OwnerToken, Released};
use lockkeeper_testkit::history::{Unprotected, check, section};
use lockkeeper_testkit::wait::until;
use support::{SOON, is_busy, ms, secs, stepped, take};

#[tokio::test]
async fn the_sketch_in_the_readme_works() {
    let (keeper, _clock) = stepped().await;
    let lock = keeper.lock("order:20241").unwrap().lease(secs(30)).wait(secs(5));
    let Acquired::Held(guard) = lock.acquire().await.unwrap() else { panic!("busy") };
    assert!(guard.is_valid() && guard.fence().unwrap().get() > 0);
    let Acquired::Busy(busy) = keeper.lock("order:20241").unwrap().try_acquire().await.unwrap() else {
        panic!("two holders")
    };
    assert_eq!(busy.holder, guard.token().holder());
    assert_eq!(busy.remaining, Some(secs(30)));
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    let fence = lock.run(async |held| held.fence().unwrap()).await.unwrap();
    assert_eq!(keeper.inspect("order:20241").await.unwrap().fence, Some(fence));
    let both =
        keeper.lock_all(["order:20241", "stock:sku-9"]).unwrap().acquire().await.unwrap().or_busy().unwrap();
    assert_eq!(both.key(), "lock:order:20241 + lock:stock:sku-9");
    assert!(
        keeper.lock("stock:sku-9").unwrap().try_acquire().await.unwrap().or_busy().unwrap_err().is_busy()
    );
    drop(both);
    let closed = keeper.close(secs(5)).await;
    assert_eq!((closed.still_held, closed.undone), (0, 0));
    assert_eq!(lock.acquire().await.unwrap_err().kind(), ErrorKind::Closed);
}

/// Invariant 6: invalid by its own clock before anybody else is let in; the server's lease is still running then.
#[tokio::test]
async fn l122_a_guard_is_invalid_before_its_lease_ends_also_when_time_jumps() {
    let (keeper, clock) = stepped().await;
    let guard = take(&keeper, "a", secs(10)).await;
    clock.advance(ms(10_000 - 100 - 2) - Duration::from_micros(1));
    assert!(guard.is_valid());
    clock.advance(Duration::from_micros(1));
    assert!(!guard.is_valid() && guard.remaining().is_zero());
    assert!(is_busy(&keeper, "a").await, "the server still keeps the lease");
    assert_eq!(guard.lost().await, LossReason::Expired);

    let guard = take(&keeper, "b", secs(10)).await;
    clock.advance(secs(3600));
    assert!(!guard.is_valid(), "the machine slept for an hour");
}

#[tokio::test]
async fn l107_l76_l109_a_late_holder_is_told_what_happened_and_touches_nothing() {
    let (keeper, clock) = stepped().await;
    let late = take(&keeper, "a", secs(1)).await;
    clock.advance(secs(2));
    late.lost().await;
    assert_eq!(
        late.extend(secs(1)).await.unwrap(),
        Extended::Expired,
        "also when the loss was noticed before"
    );
    assert_eq!(late.clone().release().await.unwrap(), Released::Expired);

    let late = take(&keeper, "a", secs(1)).await;
    clock.advance(secs(2));
    let next = take(&keeper, "a", secs(30)).await;
    assert!(next.fence().unwrap() > late.fence().unwrap());
    assert_eq!(late.extend(secs(1)).await.unwrap(), Extended::HeldByAnother(next.token().holder()));
    assert_eq!(late.release().await.unwrap(), Released::HeldByAnother(next.token().holder()));
    assert!(next.is_valid() && is_busy(&keeper, "a").await);
}

#[tokio::test]
async fn the_watchdog_renews_every_third_of_the_lease() {
    let (keeper, clock) = stepped().await;
    let guard = keeper.lock("a").unwrap().lease(secs(30)).try_acquire().await.unwrap().or_busy().unwrap();
    for _ in 0..30 {
        clock.advance(secs(10));
        until("renewed", SOON, async || guard.remaining() > secs(29)).await;
    }
    assert!(guard.is_valid() && is_busy(&keeper, "a").await);
}

#[tokio::test]
async fn l4_a_stuck_holder_loses_the_lock_at_max_hold() {
    let (keeper, clock) = stepped().await;
    let lock = keeper.lock("a").unwrap().lease(secs(3)).max_hold(secs(10));
    let guard = lock.try_acquire().await.unwrap().or_busy().unwrap();
    let started = clock.uptime();
    while guard.loss().is_none() {
        clock.advance(ms(500));
        let due = clock.uptime();
        until("looked after", SOON, async || guard.loss().is_some() || guard.remaining() > ms(1900)).await;
        assert!(due.since(started) <= ms(10_500), "held on after its bound");
    }
    assert_eq!(guard.lost().await, LossReason::MaxHold);
    assert!(clock.uptime().since(started) >= secs(10), "not before its bound");
    assert!(!guard.is_valid() && guard.remaining().is_zero());
    clock.advance(ms(3001));
    assert!(!is_busy(&keeper, "a").await, "nobody renews it any more");
}

#[tokio::test]
async fn a_bound_on_renewals_ends_them() {
    let (keeper, clock) = stepped().await;
    let lock = keeper.lock("a").unwrap().lease(secs(3)).max_renewals(2);
    let guard = lock.try_acquire().await.unwrap().or_busy().unwrap();
    for _ in 0..2 {
        clock.advance(secs(1));
        until("renewed", SOON, async || guard.remaining() > ms(2900)).await;
    }
    clock.advance(secs(2));
    assert!(guard.is_valid(), "the last renewal's lease still runs");
    clock.advance(secs(1));
    until("lost", SOON, async || guard.loss() == Some(LossReason::MaxRenewals)).await;
}

/// Invariant 10: a renewal that finds the key gone reports the loss and creates nothing.
#[tokio::test]
async fn l8_a_renewal_that_comes_too_late_is_a_loss_and_creates_nothing() {
    let (keeper, clock) = stepped().await;
    let guard = keeper.lock("a").unwrap().lease(secs(30)).try_acquire().await.unwrap().or_busy().unwrap();
    let shown = keeper.inspect("a").await.unwrap().holder.unwrap();
    assert!(
        matches!(keeper.force_release("a", &shown).await.unwrap(), ForceReleased::Released(fence) if fence > guard.fence().unwrap())
    );
    assert!(guard.is_valid(), "nobody told it yet");
    clock.advance(secs(10));
    assert_eq!(guard.lost().await, LossReason::KeyGone);
    assert_eq!(keeper.inspect("a").await.unwrap().holder, None);
}

#[tokio::test]
async fn l14_a_wanted_release_is_never_reported_as_a_loss() {
    let keeper = Keeper::connect("memory://").await.unwrap();
    let workers = (0..32).map(|worker| {
        let keeper = keeper.clone();
        tokio::spawn(async move {
            for round in 0..3 {
                let guard = keeper
                    .lock(format!("{worker}"))
                    .unwrap()
                    .lease(ms(100))
                    .acquire()
                    .await
                    .unwrap()
                    .or_busy()
                    .unwrap();
                let watch = tokio::spawn({
                    let guard = guard.clone();
                    async move { guard.lost().await }
                });
                tokio::time::sleep(ms(30 + (worker + round) % 7)).await;
                assert_eq!(guard.release().await.unwrap(), Released::Released);
                assert_eq!(watch.await.unwrap(), LossReason::Released);
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}

#[tokio::test]
async fn l37_l28_l32_l38_waiting_and_lease_are_independent() {
    let (keeper, clock) = stepped().await;
    let holder = keeper
        .lock("a")
        .unwrap()
        .lease(secs(30))
        .no_renewal()
        .try_acquire()
        .await
        .unwrap()
        .or_busy()
        .unwrap();
    let busy = keeper.lock("a").unwrap().wait(Duration::ZERO).acquire().await.unwrap();
    assert!(matches!(busy, Acquired::Busy(_)), "one try");
    let free = keeper.lock_all(["x", "y", "z"]).unwrap().wait(Duration::ZERO).acquire().await.unwrap();
    assert!(matches!(free, Acquired::Held(_)), "one try is enough");

    let waiter = tokio::spawn({
        let lock = keeper.lock("a").unwrap().lease(secs(12)).wait(secs(60)).no_renewal();
        async move { lock.acquire().await }
    });
    let mut waited = 0;
    while !waiter.is_finished() {
        assert!(waited < 300, "still waiting after {waited} steps");
        clock.advance(ms(200));
        waited += 1;
        tokio::time::sleep(ms(1)).await;
    }
    let guard = waiter.await.unwrap().unwrap().or_busy().unwrap();
    assert!(waited >= 150, "30 s of the holder's lease are 150 steps; it took {waited}");
    assert_eq!(guard.lease(), secs(12));
    drop(holder);

    let started = clock.uptime();
    let waiter = tokio::spawn({
        let lock = keeper.lock("a").unwrap().wait(ms(500));
        async move { lock.acquire().await }
    });
    while !waiter.is_finished() {
        clock.advance(ms(20));
        tokio::time::sleep(ms(1)).await;
    }
    assert!(matches!(waiter.await.unwrap().unwrap(), Acquired::Busy(_)));
    assert!(clock.uptime().since(started) >= ms(500));
}

#[tokio::test]
async fn l112_ownership_is_the_guard_and_not_the_thread() {
    let (keeper, _clock) = stepped().await;
    let _guard = take(&keeper, "a", secs(30)).await;
    assert!(is_busy(&keeper, "a").await, "the same task does not enter twice");
    assert!(is_busy(&keeper.clone(), "a").await);
}

#[tokio::test]
async fn a_shared_guard_is_released_with_its_last_clone() {
    let (keeper, _clock) = stepped().await;
    let guard = take(&keeper, "a", secs(30)).await;
    let share = guard.clone();
    drop(guard);
    assert!(share.is_valid() && is_busy(&keeper, "a").await);
    drop(share);
    until("released in the background", SOON, async || !is_busy(&keeper, "a").await).await;
}

#[tokio::test]
async fn l43_a_release_that_is_dropped_goes_on_and_releasing_twice_is_harmless() {
    let (keeper, _clock) = stepped().await;
    let guard = take(&keeper, "a", secs(30)).await;
    let share = guard.clone();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert_eq!(share.loss(), Some(LossReason::Released));
    assert!(!share.is_valid());
    assert_eq!(share.clone().release().await.unwrap(), Released::Released);
    let next = take(&keeper, "a", secs(30)).await;
    drop(share);
    assert!(
        next.is_valid() && is_busy(&keeper, "a").await,
        "L92: an old guard does not touch the new acquisition"
    );
}

#[tokio::test]
async fn l110_a_given_token_is_used() {
    let (keeper, _clock) = stepped().await;
    let token = OwnerToken::given("handed-over-by-job-7").unwrap();
    let guard =
        keeper.lock("a").unwrap().token(token.clone()).try_acquire().await.unwrap().or_busy().unwrap();
    assert_eq!(guard.token(), &token);
    let again = keeper.lock("a").unwrap().token(token).try_acquire().await.unwrap().or_busy().unwrap();
    assert_eq!(again.fence().unwrap(), guard.fence().unwrap(), "the same acquisition, asked for again");
}

#[tokio::test]
async fn l11_extending_never_shortens_and_refuses_nothing_lengths() {
    let (keeper, _clock) = stepped().await;
    let guard = take(&keeper, "a", secs(10)).await;
    assert_eq!(guard.extend(Duration::ZERO).await.unwrap_err().kind(), ErrorKind::BadArgument);
    assert_eq!(guard.extend(Duration::MAX).await.unwrap_err().kind(), ErrorKind::BadArgument);
    assert_eq!(guard.extend(ms(10)).await.unwrap(), Extended::Extended);
    assert_eq!(keeper.inspect("a").await.unwrap().remaining, Some(secs(10)));
    assert_eq!(guard.extend(secs(60)).await.unwrap(), Extended::Extended);
    assert_eq!(keeper.inspect("a").await.unwrap().remaining, Some(secs(60)));
    assert!(guard.remaining() > secs(59));
}

#[tokio::test]
async fn bad_leases_and_names_are_refused_before_anything_is_sent() {
    let (keeper, _clock) = stepped().await;
    for lease in [Duration::ZERO, Duration::from_micros(500), ms(9), secs(366 * 86_400), Duration::MAX] {
        let error = keeper.lock("a").unwrap().lease(lease).no_renewal().try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadArgument, "{lease:?}");
        assert!(error.to_string().contains("lock:a"), "{error}");
    }
    let error = keeper.lock("a").unwrap().lease(ms(30)).try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("renew"), "L115: {error}");
    assert!(keeper.lock("").is_err() && keeper.lock("~x").is_err() && keeper.lock_exact("").is_err());
    assert!(keeper.lock_all(Vec::<&str>::new()).is_err());
    assert!(!is_busy(&keeper, "a").await);
}

#[tokio::test]
async fn run_is_cancelled_when_the_lease_is_lost() {
    let (keeper, clock) = stepped().await;
    let finished = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let work = {
        let (keeper, finished) = (keeper.clone(), finished.clone());
        tokio::spawn(async move {
            let lock = keeper.lock("a").unwrap().lease(secs(10)).no_renewal();
            lock.run(async |_held| {
                std::future::pending::<()>().await;
                finished.store(true, std::sync::atomic::Ordering::SeqCst);
            })
            .await
        })
    };
    until("working", SOON, async || is_busy(&keeper, "a").await).await;
    clock.advance(secs(10));
    let error = work.await.unwrap().unwrap_err();
    assert!(error.is_lost(), "{error}");
    assert!(!finished.load(std::sync::atomic::Ordering::SeqCst));
}

/// Invariant 8: also outside of a runtime, and while the keeper's own handle is gone.
#[test]
fn a_guard_may_be_dropped_outside_of_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (keeper, clock) = runtime.block_on(stepped());
    let guard = runtime.block_on(take(&keeper, "a", secs(30)));
    let watcher = runtime.block_on(async { Keeper::builder().clock(clock).connect().await.unwrap() });
    drop(runtime);
    drop(guard);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(until("released", SOON, async || !is_busy(&keeper, "a").await));
    drop(watcher);
}

#[tokio::test]
async fn a_closed_keeper_tells_its_guards() {
    let (keeper, _clock) = stepped().await;
    let guard = keeper.lock("a").unwrap().lease(secs(30)).try_acquire().await.unwrap().or_busy().unwrap();
    let closed = keeper.close(secs(1)).await;
    assert_eq!(closed.still_held, 1, "one guard, and it is told");
    assert_eq!(guard.lost().await, LossReason::KeeperClosed);
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn listing_is_paged_and_shows_no_secret() {
    let (keeper, _clock) = stepped().await;
    let mut guards = Vec::new();
    for number in 0..250 {
        guards.push(take(&keeper, &format!("{number:03}"), secs(30)).await);
    }
    let (mut seen, mut next, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = keeper.list(next).await.unwrap();
        pages += 1;
        seen.extend(page.locks);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!((seen.len(), pages), (250, 3));
    assert_eq!(seen[7].fence, Some(guards[7].fence().unwrap()));
    let secret = String::from_utf8_lossy(&guards[7].token().as_bytes()[..22]).into_owned();
    assert!(!format!("{seen:?} {:?}", guards[7]).contains(&secret));
}

#[tokio::test]
async fn on_the_current_runtime_renewals_work_too() {
    let clock = Arc::new(lockkeeper::core::ManualClock::default());
    let keeper = Keeper::builder().clock(clock.clone()).on_current_runtime().connect().await.unwrap();
    let guard = keeper.lock("a").unwrap().lease(secs(30)).try_acquire().await.unwrap().or_busy().unwrap();
    for _ in 0..5 {
        clock.advance(secs(10));
        until("renewed", SOON, async || guard.remaining() > secs(29)).await;
    }
}

/// A blocked application cannot starve the renewals: they run on the keeper's own thread.
#[tokio::test]
async fn a_blocked_runtime_does_not_starve_the_watchdog() {
    let keeper = Keeper::connect("memory://").await.unwrap();
    let guard = keeper.lock("a").unwrap().lease(ms(200)).try_acquire().await.unwrap().or_busy().unwrap();
    std::thread::sleep(ms(1000));
    assert!(guard.is_valid(), "{:?}", guard.loss());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exclusion_holds_among_many_tasks() {
    let keeper = Keeper::connect("memory://").await.unwrap();
    let counter = Arc::new(Unprotected::default());
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (keeper, counter) = (keeper.clone(), counter.clone());
            tokio::spawn(async move {
                let mut sections = Vec::new();
                for _ in 0..20 {
                    let guard =
                        keeper.lock("a").unwrap().wait_forever().acquire().await.unwrap().or_busy().unwrap();
                    sections.push(section(&guard, &counter).await);
                    assert_eq!(guard.release().await.unwrap(), Released::Released);
                }
                sections
            })
        })
        .collect();
    let mut sections = Vec::new();
    for worker in workers {
        sections.extend(worker.await.unwrap());
    }
    check(sections, counter.get()).unwrap();
}

/// "Is it mine?" is the guard's question; "is it held, by whom, for how long?" anybody may ask.
#[tokio::test]
async fn l121_mine_and_anybodys_are_two_questions() {
    let (keeper, clock) = stepped().await;
    let guard = take(&keeper, "a", secs(10)).await;
    clock.advance(secs(4));
    let seen = keeper.inspect("a").await.unwrap();
    assert_eq!((seen.holder, seen.remaining), (Some(guard.token().holder()), Some(secs(6))));
    guard.release().await.unwrap();
    let seen = keeper.inspect("a").await.unwrap();
    assert_eq!((seen.holder, seen.remaining), (None, None));
}

/// A token releases in another process; somebody else's token does not.
#[tokio::test]
async fn l110_a_token_releases_elsewhere() {
    let (keeper, _clock) = stepped().await;
    let guard = take(&keeper, "a", secs(10)).await;
    let stranger = OwnerToken::given("stranger").unwrap();
    assert_eq!(
        keeper.release_token("a", &stranger).await.unwrap(),
        Released::HeldByAnother(guard.token().holder())
    );
    assert_eq!(keeper.release_token("a", guard.token()).await.unwrap(), Released::Released);
    assert_eq!(guard.release().await.unwrap(), Released::Expired);
}
