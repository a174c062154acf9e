//! Permits that have to last.

use lockkeeper::{AcquiredPermit, Concurrency, LossReason};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::wait::until;

use crate::common::{assert_unmet, group, hasty, replicas};
use crate::support::{SOON, command, ms, secs};

/// How many permits of `name` this server knows of.
fn held(server: &RedisServer, name: &str) -> i64 {
    command(server, &["ZCARD", &format!("lock:~permit:{{lock:{name}}}")]).as_int().unwrap()
}

async fn take(permits: &Concurrency) -> lockkeeper::Permit {
    match permits.try_acquire().await.unwrap() {
        AcquiredPermit::Held(permit) => permit,
        AcquiredPermit::Full(full) => panic!("{full:?}"),
    }
}

#[tokio::test]
async fn a_permit_counts_once_the_replicas_have_it() {
    let Some(group) = group(1) else { return };
    let keeper = hasty(group.primary()).await;
    let permits = keeper.concurrency("a", 2).unwrap().durability(replicas(1));
    let permit = take(&permits).await;
    assert_eq!(held(&group.replicas()[0].server, "a"), 1);
    group.replicas()[0].line.hold();
    assert_unmet(&permits.try_acquire().await.unwrap_err(), 0, 1);
    assert_unmet(&permits.clone().wait(secs(20)).acquire().await.unwrap_err(), 0, 1);
    until("they are given back", SOON, async || held(group.primary(), "a") == 1).await;
    assert!(permit.is_valid());
}

#[tokio::test]
async fn a_permit_whose_renewals_are_not_met_ends_at_its_old_deadline() {
    let Some(group) = group(1) else { return };
    let keeper = hasty(group.primary()).await;
    let permits = keeper.concurrency("a", 2).unwrap().lease(ms(1500)).durability(replicas(1));
    let permit = take(&permits).await;
    group.replicas()[0].line.hold();
    let LossReason::NotRenewed(error) = permit.lost().await else { panic!("{:?}", permit.loss()) };
    assert!(error.contains("0 of 1 replica acknowledged it in time"), "{error}");
    assert_eq!(held(group.primary(), "a"), 1, "the primary renewed it");
}
