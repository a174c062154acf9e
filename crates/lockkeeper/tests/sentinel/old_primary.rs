//! A primary that was stopped, replaced, and goes on.

use lockkeeper::core::Refusal;
use lockkeeper::{ErrorKind, Keeper, LockGuard, LossReason};
use lockkeeper_faults::{RedisServer, SentinelGroup};

use crate::common::{blocking, group, keeper, try_take, writable};
use crate::support::{command, scripts, secs};

/// Takes `a` through the Sentinels, stops the primary, and takes `b` from the next one. Then the old one goes on.
async fn replaced(group: &SentinelGroup) -> (Keeper, LockGuard, LockGuard) {
    let keeper = keeper(group).await;
    let before = try_take(&keeper, "a").await.unwrap();
    blocking(|| group.wait_in_sync(0)).unwrap();
    blocking(|| group.servers()[0].pause()).unwrap();
    writable(group.servers()[1..].iter()).await;
    // What was sent to the stopped one is run there later, so it is not `b`.
    while let Err(error) = try_take(&keeper, "first").await {
        assert!(error.is_transient(), "{error}");
    }
    let after = try_take(&keeper, "b").await.unwrap();
    (keeper, before, after)
}

/// Somebody who does not ask the Sentinels, and takes `b` from the old primary.
async fn takes_from(server: &RedisServer) -> Result<LockGuard, lockkeeper::Error> {
    try_take(&Keeper::connect(&server.url()).await.unwrap(), "b").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_primary_that_goes_on_acknowledges_what_is_held_elsewhere_and_is_not_used() {
    let Some(group) = group(|group| group.replicas(1)) else { return };
    let (keeper, before, after) = replaced(&group).await;
    let old = &group.servers()[0];
    old.resume().unwrap();
    command(old, &["PING"]);
    let ran = scripts(old);
    for number in 0..50 {
        try_take(&keeper, &format!("c{number}")).await.unwrap().release().await.unwrap();
    }
    assert!(before.is_valid() && after.is_valid());
    assert_eq!(scripts(old), ran, "nothing goes to the old primary any more");

    let stale = takes_from(old).await.expect("it thinks that it is the primary");
    assert!(stale.is_valid() && after.is_valid(), "two holders of one lock: this is what the guide warns of");
    // It becomes a replica of the new one, and what it acknowledged is gone.
    let reason = tokio::time::timeout(secs(60), stale.lost()).await.unwrap();
    assert!(
        !matches!(reason, LossReason::Failover),
        "who does not ask Sentinels is not told why: {reason:?}"
    );
    assert!(after.is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_primary_that_has_to_have_replicas_acknowledges_nothing() {
    let with_replicas =
        RedisServer::builder().config("min-replicas-to-write", "1").config("min-replicas-max-lag", "2");
    let Some(group) = group(|group| group.replicas(2).server(with_replicas)) else { return };
    let (_keeper, before, after) = replaced(&group).await;
    let old = &group.servers()[0];
    old.resume().unwrap();
    let refused = takes_from(old).await.expect_err("it has no replicas");
    let refusals = [Refusal::NoReplicas, Refusal::ReadOnly].map(ErrorKind::Refused);
    assert!(refusals.contains(&refused.kind()), "{refused}");
    assert_eq!(command(old, &["EXISTS", "lock:b"]).as_int(), Some(i64::from(refused.kind() == refusals[1])));
    assert!(before.is_valid() && after.is_valid());
}
