//! Keepers contend on keys of all primaries while one replica after another takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_faults::ClusterServers;
use lockkeeper_testkit::contest::Contest;
use lockkeeper_testkit::runs;
use lockkeeper_testkit::wait::until;

use crate::common::{ask, keeper, one_on_each, six};
use crate::support::{command, ms, secs};

const LENGTH: Duration = secs(12);
/// The longest time without a section of some key.
const PROGRESS: Duration = secs(4);
/// Between two failovers. Primaries vote about the same server once in two seconds, and it is its turn again after six.
const PAUSE: Duration = ms(500);

/// Planned failovers hand over all that was decided, so that neither exclusion nor a fence is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_one_primary_after_another_hands_over_nobody_holds_together() {
    let seed = runs::seed();
    eprintln!("LOCKKEEPER_SEED={seed}");
    let Some(cluster) = six() else { return };
    let names = one_on_each("c").to_vec();
    let mut keepers = Vec::new();
    for _ in 0..4 {
        keepers.push(keeper(&cluster).await);
    }
    let contest = Contest { names: names.clone(), lease: ms(1_500), renewed: true, long_ones: 100, seed };
    let (cluster, ends) = (Arc::new(cluster), Arc::new(AtomicBool::new(false)));
    let failing = tokio::task::spawn_blocking({
        let (cluster, ends) = (cluster.clone(), ends.clone());
        move || fail_over(&cluster, &ends)
    });
    let tally = contest.run(&keepers, LENGTH).await;
    ends.store(true, Ordering::Release);
    let failovers = failing.await.unwrap();
    let gap = tally.longest_gap();
    eprintln!("{failovers} failovers, sections {:?}, longest gap {gap:?}, {:?}", tally.counts(), tally.said);
    tally.check().unwrap();
    assert!(gap < PROGRESS, "nobody got in for {gap:?}");
    assert!(failovers >= 3, "{failovers} failovers");
    assert!(tally.counts().iter().all(|count| *count >= 50), "{:?}", tally.counts());
    for name in &names {
        let key = format!("lock:{name}");
        let nowhere = async || ask(&cluster, name, &["EXISTS", &key]).as_int() == Some(0);
        until(&format!("{name} is nowhere"), secs(5), nowhere).await;
    }
}

/// The shards take turns, and in each the two servers. Returns the number of failovers.
fn fail_over(cluster: &ClusterServers, ends: &AtomicBool) -> usize {
    let mut failovers = 0;
    while !ends.load(Ordering::Acquire) {
        let (shard, is_back) = (failovers % 3, failovers / 3 % 2 == 1);
        let replica = if is_back { shard } else { shard + 3 };
        let info = command(&cluster.nodes()[replica], &["INFO", "replication"]);
        // One that was a primary until now first learns what it missed.
        if info.as_str().unwrap().contains("master_link_status:up") {
            cluster.fail_over_to(replica).unwrap();
            failovers += 1;
        }
        std::thread::sleep(PAUSE);
    }
    failovers
}
