//! A failover that was asked for.

use lockkeeper::{Begun, Durability, Error, Extended, Keeper};
use lockkeeper_testkit::history::{self, Section, Unprotected};
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinHandle;

use crate::common::{blocking, group, keeper};
use crate::support::{command, exists, in_line, ms, secs};

/// Waits for `a` and runs one section under it.
fn waiter(keeper: &Keeper, counter: &Arc<Unprotected>) -> JoinHandle<Section> {
    let (lock, counter) = (keeper.lock("a").unwrap().lease(secs(10)).wait(secs(60)), counter.clone());
    tokio::spawn(async move {
        let guard = lock.acquire().await.unwrap().or_busy().unwrap();
        let section = history::section(&guard, &counter).await;
        guard.release().await.unwrap();
        section
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_and_those_who_wait_for_it_survive_a_planned_failover() {
    let Some(group) = group(|group| group.replicas(1)) else { return };
    let keepers = [keeper(&group).await, keeper(&group).await];
    let guard = keepers[0].lock("a").unwrap().lease(secs(10)).acquire().await.unwrap().or_busy().unwrap();
    let counter = Arc::new(Unprotected::default());
    let waiters: Vec<_> = (0..20).map(|number: usize| waiter(&keepers[number % 2], &counter)).collect();
    in_line(&keepers[0], 10).await;
    in_line(&keepers[1], 10).await;
    blocking(|| group.wait_in_sync(0)).unwrap();

    let fence = guard.fence().unwrap();
    assert_eq!(blocking(|| group.failover()).unwrap(), 1);
    blocking(|| group.wait_settled(1, 1)).unwrap();
    assert!(guard.is_valid(), "{:?}", guard.loss());
    assert_eq!(counter.get(), 0, "nobody was let in beside the holder");
    // It is renewed, and released, on the new primary.
    let renewed = guard.extend(secs(20)).await.unwrap();
    assert_eq!(renewed, lockkeeper::Extended::Extended);
    let left = command(&group.servers()[1], &["PTTL", "lock:a"]).as_int().unwrap();
    assert!(left > 15_000, "{left} ms on the new primary");
    guard.release().await.unwrap();

    let mut sections = Vec::new();
    for waiter in waiters {
        sections.push(tokio::time::timeout(secs(60), waiter).await.unwrap().unwrap());
    }
    assert!(sections.iter().all(|section| section.fence > fence), "fences grow over the failover");
    history::check(sections, counter.get()).unwrap();
}

/// Repeats a step that must last while too few have it, and nothing else: whoever acknowledges may be on its way.
async fn lasting<T>(step: impl AsyncFn() -> Result<T, Error>) -> T {
    let deadline = Instant::now() + secs(60);
    loop {
        match step().await {
            // What was not met is given back in the background.
            Err(error) if error.is_not_durable() || error.is_busy() => {}
            other => return other.unwrap(),
        }
        assert!(Instant::now() < deadline, "never met");
        tokio::time::sleep(ms(20)).await;
    }
}

/// A step that must last waits for a primary, as any call: it is never told of one that is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_to_last_waits_until_there_is_a_primary_again() {
    let Some(group) = group(|group| group.replicas(1)) else { return };
    let builder = Keeper::builder().url(&group.url()).unwrap().response_timeout(secs(30));
    let keeper = builder.durability(Durability::replicas(1).unwrap()).connect().await.unwrap();
    let take = async |name: &str| {
        let lock = keeper.lock(name).unwrap().lease(secs(100));
        lasting(async || lock.try_acquire().await?.or_busy()).await
    };
    let guard = take("a").await;
    // For a moment the primary is none, which no Sentinel asked for.
    command(&group.servers()[0], &["REPLICAOF", "127.0.0.1", "1"]);
    let back = async {
        tokio::time::sleep(ms(300)).await;
        command(&group.servers()[0], &["REPLICAOF", "NO", "ONE"]);
    };
    let (second, extended, ()) =
        tokio::join!(take("b"), lasting(async || guard.extend(secs(200)).await), back);
    assert_eq!(extended, Extended::Extended);
    assert!(guard.is_valid() && second.is_valid());
    second.release().await.unwrap();
    blocking(|| group.wait_settled(0, 1)).unwrap();
    blocking(|| group.wait_in_sync(0)).unwrap();

    // And over a failover to the replica that has it.
    assert_eq!(blocking(|| group.failover()).unwrap(), 1);
    let extended = lasting(async || guard.extend(secs(300)).await).await;
    assert_eq!(extended, Extended::Extended);
    let third = take("c").await;
    for server in group.servers() {
        let left = command(server, &["PTTL", "lock:a"]).as_int().unwrap();
        assert!(left > 200_000, "{left} ms");
        assert!(exists(server, "lock:c"));
    }
    third.release().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_what_runs_once_go_on_after_a_planned_failover() {
    let Some(group) = group(|group| group.replicas(1)) else { return };
    let keeper = keeper(&group).await;
    let limiter = keeper.limiter("calls", "3/h").unwrap();
    let once = keeper.once("orders").unwrap().lease(secs(10));
    assert!(limiter.check_cost("a", 2).await.unwrap().is_allowed());
    let request = lockkeeper::fingerprint::of_bytes("r");
    let Begun::Claimed(attempt) = once.begin("k", request).await.unwrap() else { panic!("claimed") };
    let permit =
        keeper.concurrency("p", 1).unwrap().lease(secs(10)).acquire().await.unwrap().or_full().unwrap();
    blocking(|| group.wait_in_sync(0)).unwrap();

    assert_eq!(blocking(|| group.failover()).unwrap(), 1);
    blocking(|| group.wait_settled(1, 1)).unwrap();
    assert!(limiter.check("a").await.unwrap().is_allowed());
    assert!(!limiter.check("a").await.unwrap().is_allowed(), "what was counted is still counted");
    assert!(permit.is_valid() && attempt.is_valid());
    let full = keeper.concurrency("p", 1).unwrap().wait(ms(0)).acquire().await.unwrap();
    assert!(full.held().is_none(), "the permit is held on the new primary");
    attempt.complete(lockkeeper::Stored::whole(*b"done").unwrap()).await.unwrap();
    let again = once.begin("k", request).await.unwrap();
    assert!(matches!(again, Begun::Completed(_)), "{again:?}");
}
