//! The few connections that are held: bounded, shared, and apart from all other traffic.

use std::time::Instant;

use lockkeeper::core::Clock;
use lockkeeper::{Acquired, Degradable, Durability, ErrorKind, Extended, Refusal, SystemClock};
use lockkeeper_faults::{FakeClock, RedisServer, Replicated, ServerKind, available, faketime_available};
use lockkeeper_testkit::drops::drop_at_every_poll;
use tokio::task::JoinSet;

use crate::common::{LIMIT, group, hasty, keeper, replicas, take_at, try_at};
use crate::support::{calls, command, median, ms, nothing_left, secs};

/// Three lanes, three pools of 4, 8 and 2, and the one that looks.
const MOST_CONNECTIONS: usize = 3 + 4 + 8 + 2 + 1;

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
    let errors = tasks.join_all().await;
    let kinds: Vec<_> = errors.iter().map(lockkeeper::Error::kind).collect();
    let took = started.elapsed();
    assert!(took < LIMIT * 3, "{took:?}");
    let unmet = |kind: &&ErrorKind| matches!(kind, ErrorKind::NotDurable { .. });
    let unsent = |kind: &&ErrorKind| matches!(kind, ErrorKind::Crowded);
    let (unmet, unsent) = (kinds.iter().filter(unmet).count(), kinds.iter().filter(unsent).count());
    assert!(unmet >= 4 && unsent >= 1, "{kinds:?}");
    // Four had the whole time for their replica; the others say where theirs went.
    let unmet = errors.iter().filter(|error| error.is_not_durable());
    let at_once = unmet.filter(|error| !error.to_string().contains("before a connection was free"));
    assert_eq!(at_once.count(), 4, "{errors:?}");
    nothing_left(group.primary(), &keeper, "afterwards").await;
    group.replicas()[0].line.release();
    take_at(&keeper, "warm", replicas(1)).await.release().await.unwrap();
}

/// The primary is healthy, so nobody is alone in this process, however many wait for its replica.
#[tokio::test]
async fn a_lock_that_may_be_degraded_is_not_because_too_many_wait_for_replicas() {
    let Some(group) = group(1) else { return };
    let keeper = keeper(group.primary()).await;
    let acquire = |keeper: &lockkeeper::Keeper, number: usize| {
        let lock = keeper.lock(format!("{number}")).unwrap().durability(replicas(1)).wait(ms(0));
        async move { lock.or_process_local().acquire().await }
    };
    assert!(matches!(acquire(&keeper, 99).await.unwrap(), Degradable::Held(_)));
    group.replicas()[0].line.hold();
    let mut tasks = JoinSet::new();
    for number in 0..16 {
        tasks.spawn(acquire(&keeper, number));
    }
    let outcomes = tasks.join_all().await;
    let crowded = |outcome: &&Result<Degradable, lockkeeper::Error>| {
        outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Crowded)
    };
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
    assert!(outcomes.iter().any(|outcome| crowded(&outcome)), "{outcomes:?}");
    nothing_left(group.primary(), &keeper, "afterwards").await;

    // One that is silent is away, also for those who stand in the queue.
    group.replicas()[0].line.release();
    group.primary().pause().unwrap();
    let mut tasks = JoinSet::new();
    for number in 100..108 {
        tasks.spawn(acquire(&keeper, number));
    }
    let outcomes = tasks.join_all().await;
    group.primary().resume().unwrap();
    let local = |outcome: &Result<Degradable, lockkeeper::Error>| matches!(outcome, Ok(Degradable::Local(_)));
    assert!(outcomes.iter().all(local), "{outcomes:?}");
}

#[tokio::test]
async fn steps_that_were_refused_keep_their_connections() {
    let Some(group) = group(1) else { return };
    let keeper = keeper(group.primary()).await;
    for level in [replicas(1), Durability::AllReplicas] {
        take_at(&keeper, "a", level).await.release().await.unwrap();
    }
    let connections = || {
        let list = command(group.primary(), &["CLIENT", "LIST", "TYPE", "NORMAL"]);
        let theirs = list.as_str().unwrap().lines().filter(|line| !line.contains("cmd=client"));
        theirs.map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = connections();
    assert!(before.len() >= 2, "{before:?}");
    command(group.primary(), &["CONFIG", "SET", "maxmemory", "1"]);
    for _ in 0..20 {
        let error = try_at(&keeper, "a", replicas(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused(Refusal::OutOfMemory), "{error}");
    }
    // One whose question is not let be in time is given up.
    let after = connections();
    let new = after.iter().filter(|connection| !before.contains(connection)).count();
    assert!(new <= 2, "{before:?}, {after:?}");
}

/// What broke while nobody used it is rarely alone: one broken copy is all that a step meets.
#[tokio::test]
async fn idle_connections_that_were_all_closed_keep_nobody_from_a_healthy_server() {
    let Some(group) = group(1) else { return };
    let keeper = keeper(group.primary()).await;
    let held = take_at(&keeper, "held", replicas(1)).await;
    let idle = || {
        let list = command(group.primary(), &["CLIENT", "LIST", "TYPE", "NORMAL"]);
        let theirs = list.as_str().unwrap().lines().filter(|line| line.contains(" cmd=wait"));
        theirs.map(|line| line["id=".len()..].split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for round in 0..2 {
        let at_once = (0..4).map(|number| {
            let keeper = keeper.clone();
            async move { take_at(&keeper, &format!("{round}:{number}"), replicas(1)).await }
        });
        for guard in at_once.collect::<JoinSet<_>>().join_all().await {
            guard.release().await.unwrap();
        }
        let idle = idle();
        assert!(idle.len() >= 2, "{idle:?}");
        idle.iter().for_each(|id| _ = command(group.primary(), &["CLIENT", "KILL", "ID", id]));
        if round == 0 {
            assert!(matches!(held.extend(secs(30)).await.unwrap(), Extended::Extended));
        } else {
            take_at(&keeper, "a", replicas(1)).await.release().await.unwrap();
        }
    }
    assert!(held.is_valid());
    held.release().await.unwrap();
    nothing_left(group.primary(), &keeper, "at the end").await;
}

/// The second copy of what came late does not queue behind the question of the first.
#[tokio::test]
async fn what_came_late_is_sent_again_on_a_connection_that_is_free() {
    if !available(ServerKind::Redis62) || !faketime_available() {
        return;
    }
    let now = SystemClock.wall().as_micros();
    let clock = FakeClock::new(now).unwrap();
    let builder = RedisServer::builder().kind(ServerKind::Redis62).faketime(&clock);
    let group = Replicated::start(&builder, 1).unwrap();
    let keeper = keeper(group.primary()).await;
    let held = keeper.lock("held").unwrap().lease(secs(3600)).durability(replicas(1));
    held.try_acquire().await.unwrap().or_busy().unwrap().hand_over().unwrap();
    // So that there is something that nobody acknowledges.
    group.replicas()[0].line.hold();
    command(group.primary(), &["SET", "x", "1"]);
    clock.advance(secs(600)).unwrap();
    let started = Instant::now();
    let busy = try_at(&keeper, "held", replicas(1)).await.unwrap();
    assert!(matches!(busy, Acquired::Busy(_)), "{busy:?}");
    assert!(started.elapsed() < secs(1), "{:?}", started.elapsed());
}

/// What was found to work for one level is remembered when another was asked for in between.
#[tokio::test]
async fn levels_by_turns_are_tried_out_once() {
    let Some(group) = group(1) else { return };
    let keeper = keeper(group.primary()).await;
    let both = async || {
        for level in [replicas(1), Durability::AllReplicas] {
            take_at(&keeper, "a", level).await.release().await.unwrap();
        }
    };
    both().await;
    let before = calls(group.primary(), &["wait", "role"]);
    for _ in 0..10 {
        both().await;
    }
    assert_eq!(calls(group.primary(), &["wait", "role"]) - before, 10 * 3);
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
