//! Every store of limits answers and keeps what the model does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::SystemClock;
use lockkeeper::core::limit::{Ask, Check, Limit, Outcome, Peek, Refund, Reset};
use lockkeeper::core::{Apply, ErrorKind, Timestamp};
use lockkeeper::redis::{RedisConfig, RedisStore, SCRIPTS};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_testkit::arm::{MemoryArm, SteppedRedis};
use lockkeeper_testkit::limits::{LimitArm, Plant, conformance, differential, keys, quota};
use lockkeeper_testkit::runs;
use proptest::strategy::{Strategy, ValueTree};

const HISTORIES: u32 = 150;
const LONGEST: usize = 60;
const WITHIN: Duration = Duration::from_secs(5);

#[tokio::test]
async fn the_memory_store_keeps_the_contract_of_limits() {
    conformance::all(&MemoryArm::default()).await;
}

#[tokio::test]
async fn redis_6_2_keeps_the_contract_of_limits() {
    if let Some(arm) = SteppedRedis::start(ServerKind::Redis62).await {
        conformance::all(&arm).await;
    }
}

#[tokio::test]
async fn the_redis_of_this_machine_keeps_the_contract_of_limits() {
    if let Some(arm) = SteppedRedis::start(ServerKind::Redis).await {
        conformance::all(&arm).await;
    }
}

#[tokio::test]
async fn valkey_keeps_the_contract_of_limits() {
    if let Some(arm) = SteppedRedis::start(ServerKind::Valkey).await {
        conformance::all(&arm).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r37_a_hundred_callers_of_four_processes_let_fifty_through() {
    let arm = MemoryArm::default();
    conformance::r37_a_hundred_at_once_are_fifty(&[arm.limits().clone()], Duration::from_secs(3600)).await;
    for kind in ServerKind::ALL.into_iter().filter(|kind| available(*kind)) {
        let server = RedisServer::builder().kind(kind).start().unwrap();
        let mut stores = Vec::new();
        for _ in 0..4 {
            stores.push(store(&server).await);
        }
        // The real clock runs: no window of a century ends meanwhile.
        let century = lockkeeper::core::limit::MAX_WINDOW;
        conformance::r37_a_hundred_at_once_are_fifty(&stores, century).await;
    }
}

#[tokio::test]
async fn a_peek_passes_a_server_that_is_paused_for_writes() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let store = store(&server).await;
    server.command(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap();
    let quotas = [quota(Limit::fixed_window(3, Duration::from_secs(10)))];
    let peek = Peek { quotas: quotas.into(), ask: Ask::whole(3) };
    let answer = store.apply(&keys(&["x"]), peek, Duration::from_secs(5)).await.unwrap();
    assert_eq!(answer.reply.outcome, Outcome::Allowed { granted: 3 });
}

/// Invariant 5: a stopped server runs what it was sent when it goes on, and then neither takes nor gives back.
#[tokio::test]
async fn what_comes_too_late_changes_no_limit() {
    for kind in ServerKind::ALL {
        let Some(arm) = SteppedRedis::start(kind).await else { continue };
        let now = arm.server_clock();
        let window = "10000000";
        let full = (now + 5_000_000).to_string();
        let used = format!("{}:2", now - now % 10_000_000);
        for (script, before, rest) in [
            ("check", &full, &["t", window, "0", "1", "0", "1", "1", "1", "1", "1000000", "0"][..]),
            ("check", &used, &["w", "3", window, "0", "0", "1", "1", "1", "1"]),
            ("refund", &full, &["1", "t", window, "0", "1", "0", "1000000", "0"]),
            ("refund", &used, &["1", "w", "3", window, "0", "0", "0", "0"]),
        ] {
            let script = SCRIPTS.iter().find(|known| known.name == script).unwrap();
            for (not_after, is_late) in [(now, false), (now - 1, true)] {
                arm.server().command(&["SET", "late", before, "PX", "10000"]).unwrap();
                let not_after = not_after.to_string();
                let words = [&["EVAL", script.source, "1", "late", &not_after], rest].concat();
                let reply = arm.server().command(&words).unwrap();
                let status = reply.as_array().unwrap()[1].as_str().unwrap();
                assert_eq!(status == "late", is_late, "{kind}: {}: {status}", script.name);
                let kept = arm.server().command(&["GET", "late"]).unwrap();
                assert_eq!(kept.as_str() == Some(before), is_late, "{kind}: {}: {kept:?}", script.name);
            }
        }
    }
}

/// R116: a time that no script could reckon with exactly is none of ours.
#[tokio::test]
async fn r116_a_log_with_a_time_of_2_to_the_53_is_left_alone() {
    for kind in ServerKind::ALL {
        let Some(arm) = SteppedRedis::start(kind).await else { continue };
        let log = quota(Limit::sliding_log(3, Duration::from_secs(10)));
        let (at, quotas, not_after) = (keys(&["late"]), [log], Timestamp::MAX);
        let store = arm.limits();
        for (time, is_ours) in [((1 << 53) - 1, true), (1 << 53, false)] {
            let plant = || arm.plant_limit(at.at(0), log.algorithm(), &Plant::Log(vec![time]));
            let check = Check { quotas: quotas.into(), asks: [Ask::whole(1)].into(), not_after };
            let peek = Peek { quotas: quotas.into(), ask: Ask::whole(1) };
            let refund = Refund { quotas: quotas.into(), cost: 1, not_after };
            plant();
            let mut answers = vec![store.apply(&at, check, WITHIN).await.map(drop)];
            plant();
            answers.push(store.apply(&at, peek, WITHIN).await.map(drop));
            answers.push(store.apply(&at, refund, WITHIN).await.map(drop));
            plant();
            answers.push(store.apply(&at, Reset { quotas: quotas.into() }, WITHIN).await.map(drop));
            for answer in answers {
                let is_foreign = answer.is_err_and(|error| error.kind() == ErrorKind::WrongType);
                assert_eq!(is_foreign, !is_ours, "{kind}: {time}");
            }
        }
    }
}

async fn store(server: &RedisServer) -> RedisStore {
    let config = RedisConfig::from_url(&server.url()).unwrap();
    RedisStore::connect(config, Arc::new(SystemClock)).await.unwrap()
}

/// Invariant 3. Set `LOCKKEEPER_SEED` to repeat a failure, `LOCKKEEPER_HISTORIES` for more.
#[tokio::test]
async fn scripts_of_limits_answer_and_keep_what_the_model_does() {
    let seed = runs::seed();
    let histories = runs::histories(HISTORIES);
    for kind in ServerKind::ALL {
        let Some(redis) = SteppedRedis::start(kind).await else { continue };
        let mut runner = runs::runner(seed);
        let memory = MemoryArm::default();
        for nth in 0..histories {
            let mut tree = differential::histories(LONGEST).new_tree(&mut runner).unwrap();
            if let Err(difference) = differential::compare(&memory, &redis, &tree.current()).await {
                let (difference, history) = shortest(&memory, &redis, &mut tree, difference).await;
                panic!("LOCKKEEPER_SEED={seed}, history {nth}: {difference}\nhistory: {history:#?}");
            }
        }
    }
}

/// Makes a history that differs shorter while it still does.
async fn shortest<T: ValueTree<Value = Vec<differential::Step>>>(
    memory: &MemoryArm,
    redis: &SteppedRedis,
    tree: &mut T,
    difference: String,
) -> (String, Vec<differential::Step>) {
    let mut found = (difference, tree.current());
    let mut goes_on = tree.simplify();
    while goes_on {
        goes_on = match differential::compare(memory, redis, &tree.current()).await {
            Err(difference) => {
                found = (difference, tree.current());
                tree.simplify()
            }
            Ok(()) => tree.complicate(),
        };
    }
    found
}
