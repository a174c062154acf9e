//! Every store obeys the contract, and every store answers what the model answers.

use lockkeeper_faults::ServerKind;
use lockkeeper_testkit::arm::{MemoryArm, SteppedQuorum, SteppedRedis};
use lockkeeper_testkit::{conformance, differential, runs};
use proptest::strategy::{Strategy, ValueTree};

/// The servers whose wall clock can be stepped.
const STEPPED: [ServerKind; 2] = [ServerKind::Redis62, ServerKind::Valkey];
const HISTORIES: u32 = 150;
const LONGEST: usize = 60;

#[tokio::test]
async fn the_memory_store_obeys_the_contract() {
    conformance::all(&MemoryArm::default()).await;
}

#[tokio::test]
async fn redis_6_2_and_valkey_obey_the_contract() {
    for kind in STEPPED {
        if let Some(arm) = SteppedRedis::start(kind).await {
            conformance::all(&arm).await;
        }
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
    for kind in STEPPED {
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
