//! What a majority decides while all is well, and what it says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use lockkeeper::{ForceReleased, Released};
use lockkeeper_testkit::wait::until;

use crate::five::{Servers, try_take};
use crate::support::{SOON, command, ms, noted, scripts, secs, take, waits};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_taken_everywhere_and_leaves_nothing() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    let guard = take(&keeper, "a", secs(10)).await;
    assert!(five.holds("a").iter().filter(|holds| **holds).count() >= 3);
    let seen = keeper.inspect("a").await.unwrap();
    assert!(seen.holder.is_some() && guard.is_valid());
    assert!(seen.remaining.unwrap() > secs(9) && seen.remaining.unwrap() <= secs(10));
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    five.nobody_holds("a").await;
    assert_eq!(keeper.health().await.store, "quorum");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keepers_that_contend_never_hold_together() {
    let Some(five) = Servers::start(5) else { return };
    let (inside, counter) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let keeper = five.keeper("").await;
        let (inside, counter) = (inside.clone(), counter.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..15 {
                let lock = keeper.lock("hot").unwrap().lease(secs(10)).wait(secs(60));
                let guard = lock.acquire().await.unwrap().or_busy().unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold at once");
                // Not protected by anything but the lock.
                let seen = counter.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                counter.store(seen + 1, Ordering::SeqCst);
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                assert_eq!(guard.release().await.unwrap(), Released::Released);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_told_by_the_servers_when_it_is_released() {
    let Some(five) = Servers::start(5) else { return };
    let (holder, waiter) = (five.keeper("").await, five.keeper("").await);
    let guard = take(&holder, "a", secs(50)).await;
    let waiting = waits(waiter.lock("a").unwrap().lease(secs(10)).wait(secs(30)));
    noted(&holder, "a", 1).await;
    let started = std::time::Instant::now();
    guard.release().await.unwrap();
    let second = crate::support::got(waiting).await;
    assert!(started.elapsed() < secs(5), "told long before the lease would have ended");
    second.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l53_a_lock_is_held_when_a_majority_says_so_and_an_error_is_no_absence() {
    let Some(three) = Servers::start(3) else { return };
    let (holder, other) = (three.keeper("").await, three.keeper("").await);
    let _guard = take(&holder, "a", secs(60)).await;
    three.servers[0].kill().unwrap();
    crate::five::is_away(&other, 0).await;
    assert!(other.inspect("a").await.unwrap().holder.is_some());
    three.servers[1].kill().unwrap();
    crate::five::is_away(&other, 1).await;
    let error = other.inspect("a").await.unwrap_err();
    assert!(error.to_string().contains("1 of 3 servers vote"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_at_fewer_servers_than_a_majority_is_not_held_and_can_be_seen() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    for server in &five.servers[..2] {
        command(server, &["SET", "lock:a", "somebody", "PX", "60000"]);
    }
    assert!(keeper.inspect("a").await.unwrap().holder.is_none());
    let key = lockkeeper::Key::new(&lockkeeper::Prefix::new("lock:").unwrap(), "a").unwrap();
    let each = keeper.quorum_store().unwrap().inspect_each(&key, secs(1)).await.unwrap();
    assert_eq!(each.iter().filter(|(_, seen)| seen.holder.is_some()).count(), 2);
    assert!(try_take(&keeper, "a", secs(10)).await.is_some(), "the other three are a majority");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l128_what_another_task_of_the_process_holds_is_held() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    let _guard = take(&keeper, "a", secs(60)).await;
    assert!(try_take(&keeper, "a", secs(60)).await.is_none());
    let both = keeper.lock_all(["a", "b"]).unwrap();
    assert!(both.try_acquire().await.unwrap().or_busy().is_err());
    five.nobody_holds("b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l127_split_votes_are_tried_again_at_different_times_until_one_wins() {
    let Some(three) = Servers::start(3) else { return };
    let keepers = [three.keeper("").await, three.keeper("").await];
    three.servers[2].kill().unwrap();
    for keeper in &keepers {
        crate::five::is_away(keeper, 2).await;
    }
    let started = std::time::Instant::now();
    for round in 0..20 {
        let name = format!("a{round}");
        let tries = keepers.iter().map(|keeper| {
            let lock = keeper.lock(&name).unwrap().lease(secs(10)).wait(secs(30));
            tokio::spawn(async move { lock.acquire().await.unwrap().or_busy().unwrap().release().await })
        });
        for task in tries.collect::<Vec<_>>() {
            task.await.unwrap().unwrap();
        }
    }
    assert!(started.elapsed() < secs(20), "each round is decided soon: {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_removes_the_holder_everywhere_and_a_renewal_does_not_bring_it_back() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    let guard = keeper.lock("a").unwrap().lease(ms(900)).try_acquire().await.unwrap().or_busy().unwrap();
    let shown = keeper.inspect("a").await.unwrap().holder.unwrap();
    assert!(matches!(keeper.force_release("a", &shown).await.unwrap(), ForceReleased::Released(_)));
    tokio::time::timeout(secs(5), guard.lost()).await.expect("the holder is told");
    five.nobody_holds("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_locks_are_listed() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    let _guards = [take(&keeper, "a", secs(60)).await, take(&keeper, "b", secs(60)).await];
    command(&five.servers[0], &["SET", "lock:alone", "somebody", "PX", "60000"]);
    let (mut names, mut cursor) = (std::collections::BTreeSet::new(), None);
    loop {
        let page = keeper.list(cursor).await.unwrap();
        names.extend(page.locks.iter().map(|lock| lock.key.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["lock:a", "lock:b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l53_a_key_that_a_majority_may_keep_is_not_free() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("").await;
    for server in &three.servers[..2] {
        command(server, &["SET", "lock:a", "somebody", "PX", "60000"]);
    }
    three.servers[0].kill().unwrap();
    crate::five::is_away(&keeper, 0).await;
    let error = keeper.inspect("a").await.expect_err("the third of them does not say").to_string();
    assert!(error.contains(&three.proxies[0].addr().to_string()), "{error}");
    assert!(keeper.inspect("b").await.unwrap().holder.is_none(), "two say that it is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_leaves_the_servers_alone_that_the_holder_does_not_have() {
    let Some(five) = Servers::start(5) else { return };
    let keeper = five.keeper("").await;
    let warm = take(&keeper, "warm", secs(10)).await;
    warm.release().await.unwrap();
    let guard = keeper.lock("a").unwrap().lease(secs(3)).try_acquire().await.unwrap().or_busy().unwrap();
    until("it is everywhere", SOON, async || five.holds("a") == [true; 5]).await;
    let waiters = [five.keeper("").await, five.keeper("").await, five.keeper("").await];
    let waiting = waiters.iter().map(|one| {
        let lock = one.lock("a").unwrap().lease(secs(3)).wait(secs(60));
        tokio::spawn(async move { lock.acquire().await.unwrap().or_busy().unwrap().release().await })
    });
    let waiting: Vec<_> = waiting.collect();
    noted(&keeper, "a", 3).await;
    command(&five.servers[4], &["DEL", "lock:a"]);
    let before: u64 = five.servers.iter().map(scripts).sum();
    let started = std::time::Instant::now();
    until("the holder has it again", secs(4), async || five.holds("a")[4]).await;
    tokio::time::sleep(secs(3).saturating_sub(started.elapsed())).await;
    let scripts = five.servers.iter().map(scripts).sum::<u64>() - before;
    // Three who ask again every second or so, at four or five servers, and a few renewals.
    assert!(scripts < 250, "{scripts} scripts in three seconds");
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    for waiting in waiting {
        assert_eq!(tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap(), Released::Released);
    }
    five.nobody_holds("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_leaves_them_alone_also_where_one_of_the_holders_servers_is_silent() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("").await;
    take(&keeper, "warm", secs(10)).await.release().await.unwrap();
    let guard = keeper.lock("a").unwrap().lease(secs(3)).try_acquire().await.unwrap().or_busy().unwrap();
    until("it is everywhere", SOON, async || three.holds("a") == [true; 3]).await;
    let waiters = [three.keeper("").await, three.keeper("").await, three.keeper("").await];
    let waiting = waiters.iter().map(|one| {
        let lock = one.lock("a").unwrap().lease(secs(3)).wait(secs(60));
        tokio::spawn(async move { lock.acquire().await.unwrap().or_busy().unwrap().release().await })
    });
    let waiting: Vec<_> = waiting.collect();
    noted(&keeper, "a", 3).await;
    three.servers[1].pause().unwrap();
    for keeper in waiters.iter().chain([&keeper]) {
        crate::five::is_away(keeper, 1).await;
    }
    command(&three.servers[2], &["DEL", "lock:a"]);
    let sum = || scripts(&three.servers[0]) + scripts(&three.servers[2]);
    let (before, started) = (sum(), std::time::Instant::now());
    let has = |node: usize| command(&three.servers[node], &["GET", "lock:a"]).as_str().map(str::to_owned);
    let has_it = async || has(2).is_some() && has(2) == has(0);
    until("the holder has it again", secs(4), has_it).await;
    tokio::time::sleep(secs(3).saturating_sub(started.elapsed())).await;
    let scripts = sum() - before;
    assert!(scripts < 150, "{scripts} scripts in three seconds");
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    three.servers[1].resume().unwrap();
    for waiting in waiting {
        assert_eq!(tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap(), Released::Released);
    }
    three.nobody_holds("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fence_of_a_forced_release_is_that_of_a_majority() {
    let Some(three) = Servers::start(3) else { return };
    let keeper = three.keeper("").await;
    let far = 5_000_000_000_000_000;
    for (node, server) in three.servers.iter().enumerate() {
        command(server, &["SET", "lock:a", "somebody", "PX", "60000"]);
        if node < 2 {
            crate::fences::plant(server, "a", far);
        }
    }
    let shown = keeper.inspect("a").await.unwrap().holder.unwrap();
    let ForceReleased::Released(fence) = keeper.force_release("a", &shown).await.unwrap() else {
        panic!("it was held")
    };
    assert!(fence.get() > far, "{fence}");
    let next = try_take(&keeper, "a", secs(10)).await.unwrap();
    assert!(next.fence().unwrap() > fence);
}
