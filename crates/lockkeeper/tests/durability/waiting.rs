//! Waiting for a lock that has to last: taken on the waiting connection, which must hold up nobody.

use lockkeeper::{Durability, LockGuard, Released};
use lockkeeper_faults::Replicated;

use crate::common::{assert_unmet, gone, group, hasty, keeper, replicas, take_at, token_of, token_on};
use crate::support::{got, in_line, ms, noted, nothing_left, secs, take, waits};

#[tokio::test]
async fn who_waited_for_another_keeper_holds_what_lasts() {
    let Some(group) = group(2) else { return };
    let (keeper, other) = (keeper(group.primary()).await, keeper(group.primary()).await);
    for level in [replicas(2), Durability::AllReplicas] {
        let guard = take(&other, "a", secs(30)).await;
        let waiter = waits(keeper.lock("a").unwrap().wait(secs(20)).durability(level));
        noted(&other, "a", 1).await;
        guard.release().await.unwrap();
        let guard = got(waiter).await;
        for replica in group.replicas() {
            assert_eq!(token_on(&replica.server, "a"), token_of(&guard), "{level}");
        }
        guard.release().await.unwrap();
    }
    nothing_left(group.primary(), &keeper, "at the end").await;
}

#[tokio::test]
async fn who_waited_and_gets_what_does_not_last_is_told_and_it_is_given_back() {
    let Some(group) = group(1) else { return };
    let (keeper, other) = (hasty(group.primary()).await, hasty(group.primary()).await);
    let guard = take(&other, "a", secs(30)).await;
    let waiter = waits(keeper.lock("a").unwrap().wait(secs(20)).durability(replicas(1)));
    noted(&other, "a", 1).await;
    group.replicas()[0].line.hold();
    guard.release().await.unwrap();
    assert_unmet(&waiter.await.unwrap().unwrap_err(), 0, 1);
    gone(group.primary(), "a").await;
    nothing_left(group.primary(), &keeper, "at the end").await;
}

/// While the confirmation of one hangs, the waiting connection serves the others.
#[tokio::test]
async fn who_waits_without_a_level_is_not_held_up_by_who_waits_with_one() {
    let Some(group) = group(1) else { return };
    let (keeper, other) = (keeper(group.primary()).await, keeper(group.primary()).await);
    let (one, two) = (take(&other, "one", secs(30)).await, take(&other, "two", secs(30)).await);
    let hanging = waits(keeper.lock("one").unwrap().wait(secs(20)).durability(replicas(1)));
    let plain = waits(keeper.lock("two").unwrap().wait(secs(20)));
    noted(&other, "one", 1).await;
    noted(&other, "two", 1).await;
    group.replicas()[0].line.hold();
    one.release().await.unwrap();
    two.release().await.unwrap();
    got(plain).await.release().await.unwrap();
    assert!(!hanging.is_finished(), "it waits for its replica");
    group.replicas()[0].line.release();
    got(hanging).await.release().await.unwrap();
}

/// The second one who waits behind `first` at the level `then`: (the token before, the one they got).
async fn handed_on(group: &Replicated, first: Durability, then: Durability) -> (Option<String>, LockGuard) {
    let keeper = keeper(group.primary()).await;
    let lock = |level| keeper.lock("a").unwrap().wait(secs(20)).durability(level);
    let guard = lock(first).acquire().await.unwrap().or_busy().unwrap();
    // The first one in the line has fences reserved for those behind.
    let middle = waits(lock(first));
    in_line(&keeper, 1).await;
    let last = waits(lock(then));
    in_line(&keeper, 2).await;
    guard.release().await.unwrap();
    let middle = got(middle).await;
    let before = token_on(group.primary(), "a");
    middle.release().await.unwrap();
    (before, got(last).await)
}

/// A tenure of another level is swapped, for a token that lasts.
#[tokio::test]
async fn a_lock_is_not_passed_on_to_who_asks_for_more() {
    let Some(group) = group(1) else { return };
    let (before, guard) = handed_on(&group, Durability::Accepted, replicas(1)).await;
    let now = token_on(&group.replicas()[0].server, "a");
    assert_ne!(now, before, "it was passed on as it was");
    assert_eq!(now, token_of(&guard));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_is_passed_on_among_those_who_ask_for_the_same() {
    let Some(group) = group(1) else { return };
    let (before, guard) = handed_on(&group, replicas(1), replicas(1)).await;
    assert_eq!(token_on(group.primary(), "a"), before);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_swap_that_is_not_met_leaves_the_lock_free() {
    let Some(group) = group(1) else { return };
    let keeper = hasty(group.primary()).await;
    let guard = take_at(&keeper, "a", Durability::Accepted).await;
    let waiter = waits(keeper.lock("a").unwrap().wait(secs(20)).durability(replicas(1)));
    in_line(&keeper, 1).await;
    group.replicas()[0].line.hold();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert_unmet(&waiter.await.unwrap().unwrap_err(), 0, 1);
    gone(group.primary(), "a").await;
    nothing_left(group.primary(), &keeper, "at the end").await;
}

#[tokio::test]
async fn many_who_ask_for_different_levels_take_turns() {
    let Some(group) = group(1) else { return };
    let keepers = [keeper(group.primary()).await, keeper(group.primary()).await];
    let tasks: Vec<_> = (0..12_usize)
        .map(|number| {
            let level = [Durability::Accepted, replicas(1), Durability::AllReplicas][number % 3];
            let lock = keepers[number % 2].lock("a").unwrap().wait(secs(20)).durability(level);
            let replica = group.replicas()[0].server.port();
            tokio::spawn(async move {
                for _ in 0..5 {
                    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
                    tokio::time::sleep(ms(1)).await;
                    assert!(guard.is_valid(), "{level} on {replica}");
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(secs(60), task).await.expect("everybody has a turn").unwrap();
    }
    for keeper in &keepers {
        nothing_left(group.primary(), keeper, "at the end").await;
    }
}
