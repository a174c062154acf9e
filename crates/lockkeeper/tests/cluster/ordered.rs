//! Several keys over several slots, one after another.

use std::time::{Duration, Instant};

use lockkeeper::{Durability, ErrorKind, Keeper, LossReason, OrderedAcquired, Released};
use lockkeeper_testkit::history::Unprotected;
use lockkeeper_testkit::wait::until;

use crate::common::{hold, keeper, one_on_each, three};
use crate::support::{SOON, is_busy, ms, secs};

#[tokio::test]
async fn each_key_has_its_fence_and_each_answers_its_release() {
    let Some(cluster) = three() else { return };
    let keeper = keeper(&cluster).await;
    let names = one_on_each("o");
    let lock = keeper.lock_all(&names).unwrap().lease(ms(600)).across_slots();
    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
    let fences: Vec<_> = names.iter().map(|name| guard.fence_of(name).unwrap()).collect();
    tokio::time::sleep(ms(1200)).await;
    assert!(guard.is_valid() && guard.remaining() > Duration::ZERO, "each is renewed");
    let error = guard.fence_of("another").unwrap_err();
    assert!(error.to_string().contains("`another`"), "{error}");

    let shown = keeper.inspect(&names[1]).await.unwrap().holder.unwrap();
    keeper.force_release(&names[1], &shown).await.unwrap();
    let (key, reason) = tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    assert_eq!((key.name(), &reason), (names[1].as_bytes(), &LossReason::KeyGone));
    assert!(!guard.is_valid(), "one is lost: all are");
    let answers = guard.release().await;
    let of = |name: &str| {
        let found = answers.iter().find(|(key, _)| key.name() == name.as_bytes());
        found.map(|(_, answer)| answer.clone().unwrap()).unwrap()
    };
    assert_eq!(
        names.each_ref().map(|name| of(name)),
        [Released::Released, Released::Expired, Released::Released]
    );

    let again = lock.acquire().await.unwrap().or_busy().unwrap();
    for (name, before) in names.iter().zip(fences) {
        assert!(again.fence_of(name).unwrap() > before, "{name}");
    }
    again.release().await;
}

/// Nobody holds and waits: the first is free again and again while the second is busy.
#[tokio::test]
async fn a_later_key_that_stays_busy_gives_the_earlier_back() {
    let (keeper, other) = pair().await;
    let theirs = hold(&other, "b").await;
    let waiting = tokio::spawn({
        let lock = keeper.lock_all(["a", "b"]).unwrap().wait(secs(20)).across_slots();
        async move { lock.acquire().await.unwrap().or_busy().unwrap() }
    });
    until("the first is taken", SOON, async || is_busy(&other, "a").await).await;
    let between = other.lock("a").unwrap().wait(SOON).acquire().await.unwrap().or_busy().unwrap();
    between.release().await.unwrap();
    theirs.release().await.unwrap();
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().release().await;

    let theirs = hold(&other, "b").await;
    let started = Instant::now();
    let lock = keeper.lock_all(["a", "b"]).unwrap().wait(ms(300)).across_slots();
    let OrderedAcquired::Busy(busy) = lock.acquire().await.unwrap() else { panic!("it is held") };
    assert_eq!(busy.key.name(), b"b");
    assert!(started.elapsed() < secs(2), "{:?}", started.elapsed());
    assert!(!is_busy(&other, "a").await, "nothing is kept");
    drop(theirs);
}

/// It comes first then, and is waited for as long as need be with nothing held, so that it may be in steady use.
#[tokio::test]
async fn a_later_key_that_was_busy_is_waited_for_with_nothing_held() {
    let (keeper, other) = pair().await;
    let theirs = hold(&other, "b").await;
    let waiting = tokio::spawn({
        let lock = keeper.lock_all(["a", "b"]).unwrap().wait(secs(20)).across_slots();
        async move { lock.acquire().await.unwrap().or_busy().unwrap() }
    });
    until("the first is taken", SOON, async || is_busy(&other, "a").await).await;
    until("it is given back", SOON, async || !is_busy(&other, "a").await).await;
    let since = Instant::now();
    while since.elapsed() < secs(1) {
        assert!(!is_busy(&other, "a").await, "taken again while the second is busy");
        tokio::time::sleep(ms(2)).await;
    }
    theirs.release().await.unwrap();
    let guard = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    let names: Vec<_> = guard.guards().map(|(key, _)| key.name()).collect();
    assert_eq!(names, [b"a", b"b"], "in their order");
    guard.release().await;
}

/// It is not asked for again and again until the limit has passed.
#[tokio::test]
async fn what_is_not_durable_is_told_at_once() {
    let Some(cluster) = three() else { return };
    let keeper = keeper(&cluster).await;
    let lock = keeper.lock_all(one_on_each("d")).unwrap().wait_forever();
    let lock = lock.durability(Durability::replicas(1).unwrap()).across_slots();
    let error = tokio::time::timeout(SOON * 2, lock.acquire()).await.expect("told").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotDurable { .. }), "{error}");
}

/// L58: the first is given back and its renewal stopped.
#[tokio::test]
async fn l58_cancelled_while_it_waits_for_the_second_it_gives_the_first_back() {
    let (keeper, other) = pair().await;
    let _theirs = hold(&other, "b").await;
    let waiting = tokio::spawn({
        let lock = keeper.lock_all(["a", "b"]).unwrap().wait_forever().across_slots();
        async move { lock.acquire().await.map(drop) }
    });
    until("the first is taken", SOON, async || is_busy(&other, "a").await).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    until("it is given back", SOON, async || !is_busy(&other, "a").await).await;
    until("nothing is held", SOON, async || keeper.health().await.held == 0).await;
}

/// L34: a lease that is not renewed is whole again when the last one was taken.
#[tokio::test]
async fn l34_leases_that_were_taken_early_are_valid_at_the_end_or_nothing_is_held() {
    let (keeper, other) = pair().await;
    let theirs = hold(&other, "b").await;
    let lock = keeper.lock_all(["a", "b"]).unwrap().lease(ms(400)).no_renewal().wait(secs(20)).across_slots();
    let waiting = tokio::spawn(async move {
        let guard = lock.acquire().await.unwrap().or_busy().unwrap();
        let left: Vec<Duration> = guard.guards().map(|(_, guard)| guard.remaining()).collect();
        (guard, left)
    });
    tokio::time::sleep(ms(1000)).await;
    theirs.release().await.unwrap();
    let (guard, left) = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert!(left.iter().all(|left| *left > ms(100)), "all are valid: {left:?}");
    guard.release().await;

    // While the second was waited for, the first grew old: it begins anew with the second. (Passed on inside the process,
    // so that it comes at once.)
    let theirs = hold(&keeper, "b").await;
    let lock = keeper.lock_all(["a", "b"]).unwrap().lease(secs(2)).no_renewal().wait(secs(20)).across_slots();
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().or_busy().unwrap() });
    until("the first is taken", SOON, async || is_busy(&other, "a").await).await;
    tokio::time::sleep(ms(60)).await;
    theirs.release().await.unwrap();
    let guard = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    let left: Vec<Duration> = guard.guards().map(|(_, guard)| guard.remaining()).collect();
    assert!(left[0].abs_diff(left[1]) < ms(40), "all begin anew at the end: {left:?}");
    guard.release().await;
}

/// L128: a key that another task of this process holds is not counted as taken.
#[tokio::test]
async fn l128_a_key_that_this_process_holds_elsewhere_is_busy() {
    let (keeper, _) = pair().await;
    let mine = hold(&keeper, "b").await;
    let lock = keeper.lock_all(["a", "b"]).unwrap().wait(ms(200)).across_slots();
    let OrderedAcquired::Busy(busy) = lock.acquire().await.unwrap() else { panic!("it is held") };
    assert_eq!(busy.key.name(), b"b");
    assert!(mine.is_valid());
}

/// In whatever order they are named, two who want the same keys come to an end.
#[tokio::test]
async fn crossed_orders_and_one_step_exclude_each_other_and_come_to_an_end() {
    let (one, other) = pair().await;
    let counter = std::sync::Arc::new(Unprotected::default());
    let mut tasks = Vec::new();
    for (keeper, names) in [(&one, ["a", "b", "c"]), (&other, ["c", "b", "a"])] {
        for is_ordered in [true, true, false] {
            let (lock, counter) = (keeper.lock_all(names).unwrap().wait(secs(30)), counter.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..10 {
                    if is_ordered {
                        let guard = lock.clone().across_slots().acquire().await.unwrap().or_busy().unwrap();
                        counter.increment().await;
                        assert!(
                            guard
                                .release()
                                .await
                                .iter()
                                .all(|(_, answer)| *answer.as_ref().unwrap() == Released::Released)
                        );
                    } else {
                        let guard = lock.acquire().await.unwrap().or_busy().unwrap();
                        counter.increment().await;
                        guard.release().await.unwrap();
                    }
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.get(), 60);
}

#[tokio::test]
async fn a_token_of_ones_own_is_refused() {
    let (keeper, _) = pair().await;
    let token = lockkeeper::OwnerToken::given(b"mine").unwrap();
    let lock = keeper.lock_all(["a", "b"]).unwrap().token(token).across_slots();
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), lockkeeper::ErrorKind::BadArgument, "{error}");
    assert!(!is_busy(&keeper, "a").await);
}

/// Two keepers on one store in this process: it needs no cluster.
async fn pair() -> (Keeper, Keeper) {
    let store = lockkeeper::core::MemoryStore::new(std::sync::Arc::new(lockkeeper::SystemClock));
    let one = Keeper::builder().memory_store(store.clone()).connect().await.unwrap();
    (one, Keeper::builder().memory_store(store).connect().await.unwrap())
}
