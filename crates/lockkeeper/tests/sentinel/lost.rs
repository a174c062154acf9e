//! A failover that loses what the old primary had acknowledged.

use std::time::Instant;

use lockkeeper::{Begun, LossReason, Released};

use crate::common::{blocking, group, keeper, writable};
use crate::support::secs;

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
