//! Every store obeys the contract of permits, and every store answers what the model answers.

use lockkeeper::redis::SCRIPTS;
use lockkeeper_faults::ServerKind;
use lockkeeper_testkit::arm::{MemoryArm, SteppedRedis};
use lockkeeper_testkit::permits::{conformance, differential};
use lockkeeper_testkit::runs;
use proptest::strategy::{Strategy, ValueTree};

const HISTORIES: u32 = 100;
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

/// Invariant 5: a stopped server runs what it was sent when it goes on, and then takes nothing.
#[tokio::test]
async fn what_comes_too_late_takes_nothing() {
    for kind in ServerKind::ALL {
        let Some(arm) = SteppedRedis::start(kind).await else { continue };
        let now = arm.server_clock();
        for (script, rest) in
            [("acquire_permit", &["1", "9999999999"][..]), ("renew_permit", &["9999999999"])]
        {
            let script = SCRIPTS.iter().find(|known| known.name == script).unwrap();
            for (not_after, is_late) in [(now, false), (now - 1, true)] {
                let not_after = not_after.to_string();
                let words = ["EVAL", script.source, "1", "late", "token", "1000000", &not_after];
                let reply = arm.server().command(&[&words[..], rest].concat()).unwrap();
                let status = reply.as_array().unwrap()[1].as_str().unwrap();
                assert_eq!(status == "late", is_late, "{kind}: {}: {status}", script.name);
                let held = arm.server().command(&["ZCARD", "late"]).unwrap().as_int().unwrap();
                assert_eq!(held == 0, is_late || script.name == "renew_permit", "{kind}: {}", script.name);
                arm.server().command(&["DEL", "late"]).unwrap();
            }
        }
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
        // One model clock for all histories: it is moved in step with the server's.
        let memory = MemoryArm::default();
        for _ in 0..histories {
            let history = differential::histories(LONGEST).new_tree(&mut runner).unwrap().current();
            differential::clean(&memory);
            differential::clean(&redis);
            if let Err(difference) = differential::compare(&memory, &redis, &history).await {
                panic!("LOCKKEEPER_SEED={seed}: {difference}\nhistory: {history:#?}");
            }
        }
    }
}
