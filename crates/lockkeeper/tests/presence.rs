//! Who waits is seen by everybody who looks, and is not seen any longer when they have gone.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::time::Duration;

use lockkeeper::{Acquired, Keeper, Lock};
use lockkeeper_testkit::wait::until;
use support::{SOON, command, got, in_line, keeper, ms, noted, secs, server, take, waits};

/// A note that nobody took away goes by itself within 2.5 s.
const GONE: Duration = Duration::from_secs(4);

/// Waits, and gives back.
async fn once(lock: Lock) {
    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
    guard.release().await.unwrap();
}

async fn waiting(looking: &Keeper) -> u64 {
    looking.inspect("a").await.unwrap().waiting()
}

#[tokio::test]
async fn those_who_wait_are_counted_by_keeper() {
    let Some(server) = server() else { return };
    let (holding, one, two) = (keeper(&server).await, keeper(&server).await, keeper(&server).await);
    let holder = take(&holding, "a", secs(60)).await;
    assert_eq!(waiting(&holding).await, 0);
    let mut tasks: Vec<_> = (0..3).map(|_| tokio::spawn(once(one.lock("a").unwrap()))).collect();
    tasks.push(tokio::spawn(once(two.lock("a").unwrap())));
    noted(&holding, "a", 4).await;
    let seen = holding.inspect("a").await.unwrap();
    let mut counts: Vec<_> = seen.waiters.iter().map(|waiter| waiter.count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 3]);
    for waiter in &seen.waiters {
        let name = waiter.keeper.to_string();
        let mut parts = name.split(':');
        assert!(parts.next().is_some_and(|host| !host.is_empty()), "{name}");
        assert_eq!(parts.next(), Some(&*std::process::id().to_string()), "{name}");
    }
    // They go one by one, by being served.
    holder.release().await.unwrap();
    for task in tasks {
        tokio::time::timeout(SOON, task).await.unwrap().unwrap();
    }
    until("nobody is noted", GONE, async || waiting(&holding).await == 0).await;
}

#[tokio::test]
async fn those_who_give_up_are_gone() {
    let Some(server) = server() else { return };
    let (holding, other) = (keeper(&server).await, keeper(&server).await);
    let _holder = take(&holding, "a", secs(60)).await;
    // Longer than from one try of the line to the next, which is when it is counted.
    let impatient = waits(other.lock("a").unwrap().wait(secs(4)));
    let dropped = waits(other.lock("a").unwrap());
    noted(&holding, "a", 2).await;
    assert!(matches!(impatient.await.unwrap().unwrap(), Acquired::Busy(_)));
    noted(&holding, "a", 1).await;
    dropped.abort();
    until("nobody is noted", GONE, async || waiting(&holding).await == 0).await;
    until("no key is left", GONE, async || {
        command(&server, &["KEYS", "lock:~wait:*"]).as_array().unwrap().is_empty()
    })
    .await;
}

/// The holder is of the same keeper, so that nobody needs the server's help to wait.
#[tokio::test]
async fn those_who_wait_behind_a_holder_of_their_own_keeper_are_seen_for_as_long_as_they_wait() {
    let Some(server) = server() else { return };
    let (one, looking) = (keeper(&server).await, keeper(&server).await);
    let first = one.lock("a").unwrap().acquire().await.unwrap().or_busy().unwrap();
    let second = waits(one.lock("a").unwrap());
    in_line(&one, 1).await;
    drop(first);
    let second = got(second).await;
    let task = waits(one.lock("a").unwrap());
    noted(&looking, "a", 1).await;
    // Real time: longer than one note lasts.
    for _ in 0..35 {
        tokio::time::sleep(ms(100)).await;
        assert_eq!(waiting(&looking).await, 1);
    }
    drop(second);
    drop(got(task).await);
    until("nobody is noted", GONE, async || waiting(&looking).await == 0).await;
}

#[tokio::test]
async fn a_keeper_that_is_gone_is_forgotten() {
    let Some(server) = server() else { return };
    let (holding, other) = (keeper(&server).await, keeper(&server).await);
    let _holder = take(&holding, "a", secs(60)).await;
    let task = waits(other.lock("a").unwrap());
    noted(&holding, "a", 1).await;
    other.close(secs(1)).await;
    assert!(task.await.unwrap().is_err());
    until("it is forgotten", GONE, async || waiting(&holding).await == 0).await;
    let store = lockkeeper::MemoryStore::new(std::sync::Arc::new(lockkeeper::SystemClock));
    let memory = Keeper::builder().memory_store(store).connect().await.unwrap();
    let holder = take(&memory, "a", secs(60)).await;
    let task = waits(memory.lock("a").unwrap());
    until("seen in memory, too", SOON, async || waiting(&memory).await == 1).await;
    drop(holder);
    drop(got(task).await);
    until("gone in memory, too", GONE, async || waiting(&memory).await == 0).await;
}

/// Well before its note would have gone by itself.
#[tokio::test]
async fn the_last_who_runs_out_of_patience_takes_the_note_away() {
    let Some(server) = server() else { return };
    let (holding, other) = (keeper(&server).await, keeper(&server).await);
    let _holder = take(&holding, "a", secs(60)).await;
    let outcome = other.lock("a").unwrap().wait(ms(200)).acquire().await.unwrap();
    assert!(matches!(outcome, Acquired::Busy(_)), "{outcome:?}");
    let took = until("nobody is noted", GONE, async || waiting(&holding).await == 0).await;
    assert!(took < ms(1400), "{took:?}");
}
