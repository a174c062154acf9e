//! Acquiring, extending and taking over: met, and not met.

use std::time::Instant;

use lockkeeper::{Acquired, Durability, ErrorKind, Extended, TakenOver};
use lockkeeper_testkit::wait::until;

use crate::common::{
    LIMIT, assert_unmet, gone, group, hasty, keeper, replicas, take_at, token_of, token_on, try_at,
};
use crate::support::{SOON, calls, command, is_busy, nothing_left, secs, take};

#[tokio::test]
async fn a_lock_that_is_held_is_on_as_many_replicas_as_were_asked_for() {
    let Some(group) = group(2) else { return };
    let keeper = keeper(group.primary()).await;
    for round in 0..20 {
        for (level, least) in [(replicas(1), 1), (replicas(2), 2), (Durability::AllReplicas, 2)] {
            let guard = take_at(&keeper, "a", level).await;
            let on = |at: usize| token_on(&group.replicas()[at].server, "a") == token_of(&guard);
            let having = usize::from(on(0)) + usize::from(on(1));
            assert!(having >= least, "{level}, {round}: on {having}");
            guard.release().await.unwrap();
        }
    }
    nothing_left(group.primary(), &keeper, "at the end").await;
}

#[tokio::test]
async fn l79_one_of_two_is_said_and_the_lock_is_given_back() {
    let Some(group) = group(2) else { return };
    let keeper = hasty(group.primary()).await;
    group.replicas()[0].line.hold();
    for (number, level) in [replicas(2), Durability::AllReplicas].into_iter().enumerate() {
        let name = format!("a{number}");
        let error = try_at(&keeper, &name, level).await.unwrap_err();
        assert_unmet(&error, 1, 2);
        assert!(error.to_string().contains(&format!("lock:{name}")), "{error}");
        gone(group.primary(), &name).await;
    }
    // Whoever asks for less has it.
    take_at(&keeper, "b", replicas(1)).await.release().await.unwrap();
    group.replicas()[0].line.release();
    group.wait_in_sync().unwrap();
    take_at(&keeper, "a0", replicas(2)).await.release().await.unwrap();
    nothing_left(group.primary(), &keeper, "at the end").await;
}

/// Documented: one replica has it, the other one is promoted.
#[tokio::test]
async fn l79_one_replica_may_be_the_wrong_one_and_all_replicas_fail_the_acquire_instead() {
    let Some(group) = group(2) else { return };
    let keeper = hasty(group.primary()).await;
    let lagging = &group.replicas()[0];
    lagging.line.hold();
    let guard = take_at(&keeper, "one", replicas(1)).await;
    let error = try_at(&keeper, "all", Durability::AllReplicas).await.unwrap_err();
    assert_unmet(&error, 1, 2);
    command(&lagging.server, &["REPLICAOF", "NO", "ONE"]);
    assert_eq!(token_on(&lagging.server, "one"), None, "the loss that level 1 allows");
    assert_eq!(token_on(&group.replicas()[1].server, "one"), token_of(&guard));
    let other = hasty(&lagging.server).await;
    let second = take(&other, "one", secs(10)).await;
    assert!(guard.is_valid() && second.is_valid(), "both believe to hold it: the fence is for that");
}

#[tokio::test]
async fn without_a_replica_all_replicas_is_not_met_and_says_so_at_once() {
    let Some(group) = group(0) else { return };
    let keeper = keeper(group.primary()).await;
    let started = Instant::now();
    let error = try_at(&keeper, "a", Durability::AllReplicas).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDurable { acknowledged: 0, wanted: 1 });
    assert!(error.to_string().contains("the primary lists no online replica"), "{error}");
    assert!(started.elapsed() < secs(1), "{:?}", started.elapsed());
    gone(group.primary(), "a").await;
}

#[tokio::test]
async fn a_replica_that_joins_is_one_of_all_from_then_on() {
    let Some(group) = group(1) else { return };
    let (keeper, patient) = (hasty(group.primary()).await, keeper(group.primary()).await);
    take_at(&keeper, "a", Durability::AllReplicas).await.release().await.unwrap();
    let primary = group.primary().port();
    let late = lockkeeper_faults::RedisServer::builder()
        .config("replicaof", format!("127.0.0.1 {primary}"))
        .start()
        .unwrap();
    let lists = async || {
        let role = command(group.primary(), &["ROLE"]);
        role.as_array().unwrap()[2].as_array().unwrap().len() == 2
    };
    until("the replica is online", secs(20), lists).await;
    // It is sent nothing until its first word.
    take_at(&patient, "b", replicas(2)).await.release().await.unwrap();
    late.pause().unwrap();
    assert_unmet(&try_at(&keeper, "a", Durability::AllReplicas).await.unwrap_err(), 1, 2);
    late.resume().unwrap();
}

/// A refusal took nothing, so nobody has to have it.
#[tokio::test]
async fn busy_is_said_at_once_although_no_replica_answers() {
    let Some(group) = group(1) else { return };
    let (keeper, other) = (keeper(group.primary()).await, keeper(group.primary()).await);
    let guard = take(&other, "a", secs(30)).await;
    // So that the connections have written something that nobody will acknowledge.
    group.replicas()[0].line.hold();
    let started = Instant::now();
    for _ in 0..20 {
        let busy = try_at(&keeper, "a", replicas(1)).await.unwrap();
        assert!(matches!(busy, Acquired::Busy(_)));
    }
    assert!(started.elapsed() < secs(2), "{:?}", started.elapsed());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn an_extension_that_is_not_met_moves_no_deadline() {
    let Some(group) = group(1) else { return };
    let keeper = hasty(group.primary()).await;
    let lock = keeper.lock("a").unwrap().lease(secs(10)).no_renewal().durability(replicas(1));
    let guard = lock.try_acquire().await.unwrap().or_busy().unwrap();
    assert_eq!(guard.extend(secs(20)).await.unwrap(), Extended::Extended);
    let before = guard.remaining();
    assert!(before > secs(15), "{before:?}");

    group.replicas()[0].line.hold();
    assert_unmet(&guard.extend(secs(100)).await.unwrap_err(), 0, 1);
    assert!(guard.is_valid() && guard.remaining() < before, "{:?}", guard.remaining());
    let on_primary = command(group.primary(), &["PTTL", "lock:a"]).as_int().unwrap();
    assert!(on_primary > 50_000, "the primary did it: {on_primary}");

    group.replicas()[0].line.release();
    assert_eq!(guard.extend(secs(100)).await.unwrap(), Extended::Extended);
    assert!(guard.remaining() > secs(50));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_take_over_that_is_not_met_leaves_the_lock_free() {
    let Some(group) = group(1) else { return };
    let (keeper, other) = (hasty(group.primary()).await, hasty(group.primary()).await);
    let lock = other.lock("a").unwrap().durability(replicas(1));
    let token = take_at(&keeper, "a", replicas(1)).await.hand_over().unwrap();
    let TakenOver::Held(guard) = lock.take_over(&token).await.unwrap() else { panic!("not taken over") };
    assert_eq!(token_on(&group.replicas()[0].server, "a"), token_of(&guard));

    group.replicas()[0].line.hold();
    let token = guard.hand_over().unwrap();
    let third = keeper.lock("a").unwrap().durability(replicas(1));
    assert_unmet(&third.take_over(&token).await.unwrap_err(), 0, 1);
    gone(group.primary(), "a").await;
    assert!(!is_busy(&keeper, "a").await);
}

#[tokio::test]
async fn the_keepers_level_is_that_of_locks_that_say_nothing() {
    let Some(group) = group(1) else { return };
    let builder = lockkeeper::Keeper::builder().url(&group.primary().url()).unwrap().response_timeout(LIMIT);
    let keeper = builder.durability(replicas(1)).connect().await.unwrap();
    group.replicas()[0].line.hold();
    let lock = keeper.lock("a").unwrap();
    assert_unmet(&lock.try_acquire().await.unwrap_err(), 0, 1);
    let plain = lock.durability(Durability::Accepted);
    until("it was given back, and is taken", SOON, async || {
        plain.try_acquire().await.unwrap().held().is_some()
    })
    .await;
}

/// The script and the question go together, and nothing else is sent.
#[tokio::test]
async fn a_step_is_a_script_and_a_question() {
    let Some(group) = group(1) else { return };
    let keeper = keeper(group.primary()).await;
    take_at(&keeper, "a", replicas(1)).await.release().await.unwrap();
    let count = || {
        let of = |names: &[&str]| calls(group.primary(), names);
        [of(&["eval", "evalsha"]), of(&["wait"]), of(&["role"])]
    };
    let before = count();
    for _ in 0..20 {
        take_at(&keeper, "a", replicas(1)).await.release().await.unwrap();
    }
    let after = count();
    let [scripts, waits, roles] = std::array::from_fn(|at| after[at] - before[at]);
    assert_eq!((waits, roles), (20, 0));
    // Acquisitions, releases, and what another lane may try out when it connects meanwhile.
    assert!((40..=42).contains(&scripts), "{scripts}");
}
