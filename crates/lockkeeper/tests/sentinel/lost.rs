//! A failover that loses what the old primary had acknowledged.

use std::time::Instant;

use lockkeeper::{Begun, LossReason, Released};

use crate::common::{blocking, group, keeper, writable};
use crate::support::{command, secs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_held_what_a_failover_lost_is_told_at_once_and_told_why() {
    let Some(group) = group(|group| group.replicas(1)) else { return };
    let keeper = keeper(&group).await;
    blocking(|| group.cut_replication(0)).unwrap();
    let lease = secs(60);
    let guard = keeper.lock("a").unwrap().lease(lease).acquire().await.unwrap().or_busy().unwrap();
    let taken = keeper.lock("b").unwrap().lease(lease).acquire().await.unwrap().or_busy().unwrap();
    let plain = keeper.lock("c").unwrap().lease(lease).no_renewal();
    let plain = plain.acquire().await.unwrap().or_busy().unwrap();
    let permit = keeper.concurrency("p", 1).unwrap().lease(lease).acquire().await.unwrap().or_full().unwrap();
    let once = keeper.once("orders").unwrap().lease(lease);
    let begun = once.begin("k", lockkeeper::fingerprint::of_bytes("r")).await.unwrap();
    let Begun::Claimed(attempt) = begun else { panic!("claimed") };

    blocking(|| group.servers()[0].kill()).unwrap();
    let writable = writable(group.servers()[1..].iter()).await;
    // Somebody may be faster than we are.
    let other = "lock:b";
    blocking(|| group.servers()[1].command(&["SET", other, "somebody", "PX", "60000"])).unwrap();
    let reasons = tokio::time::timeout(secs(20), async {
        (
            guard.lost().await,
            taken.lost().await,
            plain.lost().await,
            permit.lost().await,
            attempt.lost().await,
        )
    });
    let (one, two, three, four, five) = reasons.await.expect("long before the leases end");
    let told = Instant::now().saturating_duration_since(writable);
    println!("told {told:?} after the new primary took writes");
    for reason in [one, two, three, four, five] {
        assert_eq!(reason, LossReason::Failover);
    }
    assert!(told < secs(3), "{told:?}");
    assert!(matches!(taken.release().await.unwrap(), Released::HeldByAnother(_)));
}

/// That the new primary could not be asked is no failed renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_nobody_renews_ends_as_one_though_the_new_primary_did_not_say_whether_it_knows_it() {
    let Some(group) = group(|group| group.replicas(1)) else { return };
    let keeper = keeper(&group).await;
    let lock = keeper.lock("a").unwrap().lease(secs(20)).no_renewal();
    let guard = lock.acquire().await.unwrap().or_busy().unwrap();
    blocking(|| group.wait_in_sync(0)).unwrap();
    command(&group.servers()[1], &["ACL", "SETUSER", "default", "-evalsha", "-eval", "-fcall", "-get"]);
    blocking(|| group.servers()[0].kill()).unwrap();
    writable(group.servers()[1..].iter()).await;
    tokio::time::sleep(secs(2)).await;
    assert!(guard.remaining() > secs(1), "it was asked: {:?}", guard.remaining());
    assert_eq!(guard.lost().await, LossReason::Expired);
}
