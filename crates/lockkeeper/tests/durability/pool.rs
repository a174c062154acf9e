//! The few connections that are held: bounded, shared, and apart from all other traffic.

use std::time::Instant;

use lockkeeper::{Durability, ErrorKind};
use lockkeeper_testkit::drops::drop_at_every_poll;
use tokio::task::JoinSet;

use crate::common::{LIMIT, group, hasty, keeper, replicas, take_at, try_at};
use crate::support::{command, median, ms, nothing_left, secs};

/// Three lanes, three pools of 4, 2 and 2, and the one that looks.
const MOST_CONNECTIONS: usize = 3 + 4 + 2 + 2 + 1;

#[tokio::test]
async fn sixteen_at_once_share_a_few_connections() {
    let Some(group) = group(1) else { return };
    let keeper = keeper(group.primary()).await;
    let mut tasks = JoinSet::new();
    for number in 0..16 {
        let keeper = keeper.clone();
        tasks.spawn(async move {
            for round in 0..20 {
                let guard = take_at(&keeper, &format!("{number}:{round}"), replicas(1)).await;
                guard.release().await.unwrap();
            }
        });
    }
    let mut most = 0;
    while !tasks.is_empty() {
        let clients = command(group.primary(), &["CLIENT", "LIST", "TYPE", "NORMAL"]);
        most = most.max(clients.as_str().unwrap().lines().count());
        if let Ok(Some(ended)) = tokio::time::timeout(ms(5), tasks.join_next()).await {
            ended.unwrap();
        }
    }
    assert!((3..=MOST_CONNECTIONS).contains(&most), "{most} connections");
    nothing_left(group.primary(), &keeper, "at the end").await;
}

#[tokio::test]
async fn who_finds_no_free_connection_waits_no_longer_than_the_limit() {
    let Some(group) = group(1) else { return };
    let keeper = hasty(group.primary()).await;
    take_at(&keeper, "warm", replicas(1)).await.release().await.unwrap();
    group.replicas()[0].line.hold();
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..16 {
        let keeper = keeper.clone();
        tasks.spawn(async move { try_at(&keeper, &format!("{number}"), replicas(1)).await.unwrap_err() });
    }
    let kinds: Vec<_> = tasks.join_all().await.iter().map(lockkeeper::Error::kind).collect();
    let took = started.elapsed();
    assert!(took < LIMIT * 3, "{took:?}");
    let unmet = |kind: &&ErrorKind| matches!(kind, ErrorKind::NotDurable { .. });
    let unsent = |kind: &&ErrorKind| matches!(kind, ErrorKind::Unreachable);
    let (unmet, unsent) = (kinds.iter().filter(unmet).count(), kinds.iter().filter(unsent).count());
    assert!(unmet >= 4 && unsent >= 1, "{kinds:?}");
    nothing_left(group.primary(), &keeper, "afterwards").await;
    group.replicas()[0].line.release();
    take_at(&keeper, "warm", replicas(1)).await.release().await.unwrap();
}

#[tokio::test]
async fn nobody_else_is_held_up_while_a_step_waits() {
    let Some(group) = group(1) else { return };
    let keeper = keeper(group.primary()).await;
    group.replicas()[0].line.hold();
    let mut hanging = JoinSet::new();
    for number in 0..4 {
        let keeper = keeper.clone();
        hanging.spawn(async move { try_at(&keeper, &format!("hanging{number}"), replicas(1)).await });
    }
    tokio::time::sleep(ms(100)).await;
    let mut times = Vec::new();
    for number in 0..50 {
        let started = Instant::now();
        let guard = take_at(&keeper, &format!("{number}"), Durability::Accepted).await;
        times.push(started.elapsed());
        guard.release().await.unwrap();
    }
    assert!(hanging.try_join_next().is_none(), "they hang");
    assert!(median(&times) < ms(20), "{:?}", median(&times));
    group.replicas()[0].line.release();
    for outcome in hanging.join_all().await {
        assert!(outcome.unwrap().held().is_some());
    }
}

/// Invariant 8.
#[tokio::test]
async fn a_step_that_is_dropped_at_any_moment_leaves_nothing() {
    let Some(group) = group(1) else { return };
    let keeper = hasty(group.primary()).await;
    for held in [false, true] {
        if held {
            group.replicas()[0].line.hold();
        }
        for level in [replicas(1), Durability::AllReplicas] {
            let lock = keeper.lock("a").unwrap().wait(secs(1)).durability(level);
            let polls = drop_at_every_poll(
                || lock.try_acquire(),
                async |polls, output| {
                    drop(output);
                    nothing_left(group.primary(), &keeper, format!("{level}, after {polls} polls")).await;
                },
            )
            .await;
            assert!(polls >= 2, "it was dropped in flight at least once");
        }
    }
    // The connections that were given up are replaced.
    group.replicas()[0].line.release();
    for _ in 0..8 {
        take_at(&keeper, "a", replicas(1)).await.release().await.unwrap();
    }
}

/// A connection on which the server still waits for nobody is not used again.
#[tokio::test]
async fn who_comes_after_a_step_that_was_dropped_does_not_wait_behind_it() {
    let Some(group) = group(2) else { return };
    let keeper = keeper(group.primary()).await;
    take_at(&keeper, "warm", replicas(2)).await.release().await.unwrap();
    group.replicas()[0].line.hold();
    for number in 0..4 {
        let name = format!("{number}");
        let hanging = try_at(&keeper, &name, replicas(2));
        assert!(tokio::time::timeout(ms(50), hanging).await.is_err(), "it hangs");
    }
    let started = Instant::now();
    take_at(&keeper, "next", replicas(1)).await.release().await.unwrap();
    assert!(started.elapsed() < secs(1), "{:?}", started.elapsed());
    nothing_left(group.primary(), &keeper, "at the end").await;
}

#[tokio::test]
async fn a_renewal_does_not_wait_behind_acquisitions_that_hang() {
    let Some(group) = group(2) else { return };
    let keeper = keeper(group.primary()).await;
    let kept = keeper.lock("kept").unwrap().lease(ms(1500)).durability(replicas(1));
    let kept = kept.try_acquire().await.unwrap().or_busy().unwrap();
    group.replicas()[0].line.hold();
    let mut hanging = JoinSet::new();
    for number in 0..8 {
        let keeper = keeper.clone();
        hanging.spawn(async move {
            loop {
                assert!(try_at(&keeper, &format!("{number}"), replicas(2)).await.is_err());
            }
        });
    }
    tokio::time::sleep(ms(1500) * 3).await;
    assert!(kept.is_valid(), "{:?}", kept.loss());
    hanging.shutdown().await;
}
