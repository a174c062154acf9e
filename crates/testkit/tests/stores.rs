//! Every store obeys the contract, and every store answers what the model answers.

use lockkeeper_faults::ServerKind;
use lockkeeper_testkit::arm::{MemoryArm, SteppedCluster, SteppedQuorum, SteppedRedis};
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
    for kind in ServerKind::ALL {
        let Some(arm) = SteppedCluster::start(kind).await else { continue };
        conformance::all(&arm).await;
        permits::conformance::all(arm.server()).await;
        // Those begin at whole milliseconds.
        let Some(arm) = SteppedCluster::start(kind).await else { continue };
        once::conformance::all(arm.server()).await;
        let Some(arm) = SteppedCluster::start(kind).await else { continue };
        limits::conformance::all(&arm).await;
    }
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
