//! A failover that was asked for.

use lockkeeper::{Begun, Keeper};
use lockkeeper_testkit::history::{self, Section, Unprotected};
use std::sync::Arc;
use tokio::task::JoinHandle;

use crate::common::{blocking, group, keeper};
use crate::support::{command, in_line, ms, secs};

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
