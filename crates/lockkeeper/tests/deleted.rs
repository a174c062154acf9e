//! A key that somebody else removes under its holder.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use lockkeeper_testkit::wait::until;
use support::{SOON, command, keeper, ms, secs, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_gets_a_lock_whose_key_was_removed_under_its_holder() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    for round in 0..100 {
        let name = format!("job-{}", round % 3);
        let guard = keeper.lock(&name).unwrap().acquire().await.unwrap().or_busy().unwrap();
        let lock = keeper.lock(&name).unwrap().wait(secs(8));
        let waiter = tokio::spawn(async move { lock.acquire().await });
        tokio::time::sleep(ms(rand::random_range(0..6))).await;
        command(&server, &["DEL", &format!("lock:{name}")]);
        tokio::time::sleep(std::time::Duration::from_micros(rand::random_range(0..3000))).await;
        drop(guard);
        let got = waiter.await.unwrap().unwrap();
        let got = got.or_busy().unwrap_or_else(|error| panic!("round {round}: {error}"));
        if round % 2 == 0 {
            drop(got);
        } else {
            let _ = got.release().await.unwrap();
        }
    }
}

/// The first holder does not know yet that it lost the lock; what it lets go of is the next one's by now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_removed_is_not_passed_on_beside_the_one_that_was_taken_since() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let lock = || keeper.lock("job").unwrap().wait(secs(30));
    let first = lock().acquire().await.unwrap().or_busy().unwrap();
    let (one, other) = (lock(), lock());
    let second = tokio::spawn(async move { one.acquire().await });
    until("the second waits", SOON, async || keeper.health().await.waiting == 1).await;
    let third = tokio::spawn(async move { other.acquire().await });
    until("the third waits", SOON, async || keeper.health().await.waiting == 2).await;
    command(&server, &["DEL", "lock:job"]);
    let second = second.await.unwrap().unwrap().or_busy().unwrap();

    drop(first);
    assert_eq!(keeper.health().await.waiting, 1, "the third waits for the second");
    assert!(second.is_valid());
    assert_eq!(second.release().await.unwrap(), lockkeeper::Released::Released);
    assert!(third.await.unwrap().unwrap().or_busy().unwrap().is_valid());
}
