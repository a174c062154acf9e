//! Every store obeys the contract, and every store answers what the model answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockkeeper::core::limit::MAX_WINDOW;
use lockkeeper::redis::RedisStore;
use lockkeeper::{RedisConfig, SystemClock};
use lockkeeper_faults::{ClusterServers, RedisServer, ServerKind, available};
use lockkeeper_testkit::arm::{MemoryArm, RealCluster, SteppedCluster, SteppedQuorum, SteppedRedis};
use lockkeeper_testkit::{conformance, differential, limits, once, permits, runs};
use proptest::strategy::{Strategy, ValueTree};

const HISTORIES: u32 = 150;
const LONGEST: usize = 60;

#[tokio::test]
async fn the_memory_store_obeys_the_contract() {
    conformance::all(&MemoryArm::default()).await;
}

#[tokio::test]
async fn every_server_obeys_the_contract() {
    for kind in ServerKind::ALL {
        if let Some(arm) = SteppedRedis::start(kind).await {
            conformance::all(&arm).await;
        }
    }
}

/// Through the map and the routes of a cluster. It has one server, because a cluster of several gives servers up whose
/// wall clocks are stepped; what several servers do is tested in real time.
#[tokio::test]
async fn a_cluster_obeys_every_contract() {
    let start = || SteppedCluster::start(ServerKind::Redis);
    let Some(arm) = start().await else { return };
    conformance::all(&arm).await;
    permits::conformance::all(arm.server()).await;
    // Those begin at whole milliseconds.
    let Some(arm) = start().await else { return };
    once::conformance::all(arm.server()).await;
    let Some(arm) = start().await else { return };
    limits::conformance::all(&arm).await;
}

/// On six servers in real time, under tags whose slots all three primaries keep: how fences are reserved and grow, who is
/// noted as waiting for several keys, that one of many at once runs, and that a limit lets through what it says. All else
/// is left to the cluster of one server above, most of it because it needs exact times or damage; failovers and moved slots
/// are tested in `lockkeeper/tests/cluster`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_servers_obey_what_needs_no_steps() {
    if !available(ServerKind::Redis) {
        return;
    }
    let cluster = ClusterServers::start(&RedisServer::builder()).unwrap();
    let connect = async || {
        let config = RedisConfig::from_url(&cluster.url()).unwrap();
        RedisStore::connect(config, Arc::new(SystemClock)).await.unwrap()
    };
    let (one, other) = (connect().await, connect().await);
    let mut asked = BTreeSet::new();
    for number in 0..6 {
        let tag = format!("t{number}");
        let (arm, second) = (RealCluster::new(one.clone(), &tag), RealCluster::new(other.clone(), &tag));
        asked.insert(cluster.owner_of(arm.slot()).unwrap());
        conformance::fence_blocks_are_reserved_whole(&arm).await;
        conformance::fences_grow_over_everything_that_ends_a_hold(&arm).await;
        conformance::a_watch_of_several_keys_notes_presence_beside_each(&arm).await;
        let stores = [arm.tagged().clone(), second.tagged().clone()];
        once::conformance::c1_c11_one_of_many_at_once_has_the_right_to_run(&stores).await;
        // The real clock runs: no window of a century ends meanwhile.
        limits::conformance::r37_a_hundred_at_once_are_fifty(&stores, MAX_WINDOW).await;
    }
    assert_eq!(asked.len(), 3, "one of the primaries was asked nothing");
}

#[tokio::test]
async fn a_majority_of_five_obeys_the_contract() {
    // The contract asks for leases of a year.
    let year = std::time::Duration::from_secs(365 * 24 * 3600);
    if let Some(arm) = SteppedQuorum::start(ServerKind::Redis62, 5, year).await {
        conformance::all(&arm).await;
    }
}

/// Invariant 3. Set `LOCKKEEPER_SEED` to repeat a failure, `LOCKKEEPER_HISTORIES` for more.
#[tokio::test]
async fn scripts_answer_what_the_model_answers() {
    let seed = runs::seed();
    let histories = runs::histories(HISTORIES);
    for kind in ServerKind::ALL {
        let Some(redis) = SteppedRedis::start(kind).await else { continue };
        let mut runner = runs::runner(seed);
        // One model clock for all histories: it is advanced in step with the server's.
        let memory = MemoryArm::default();
        for _ in 0..histories {
            let tree = differential::histories(LONGEST).new_tree(&mut runner).unwrap();
            let history = tree.current();
            differential::clean(&memory);
            differential::clean(&redis);
            if let Err(difference) = differential::compare(&memory, &redis, &history).await {
                panic!("LOCKKEEPER_SEED={seed}: {difference}\nhistory: {history:#?}");
            }
        }
    }
}
