//! Every store of limits answers and keeps what the model does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::SystemClock;
use lockkeeper::core::Apply;
use lockkeeper::core::limit::{Ask, Limit, Outcome, Peek};
use lockkeeper::redis::{RedisConfig, RedisStore};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_testkit::arm::{MemoryArm, SteppedRedis};
use lockkeeper_testkit::limits::{LimitArm, conformance, differential, keys, quota};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// The servers whose wall clock can be stepped.
const STEPPED: [ServerKind; 2] = [ServerKind::Redis62, ServerKind::Valkey];
const HISTORIES: u64 = 150;
const LONGEST: usize = 60;

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

async fn store(server: &RedisServer) -> RedisStore {
    let config = RedisConfig::from_url(&server.url()).unwrap();
    RedisStore::connect(config, Arc::new(SystemClock)).await.unwrap()
}

/// Invariant 3. Set `LOCKKEEPER_SEED` to repeat a failure, `LOCKKEEPER_HISTORIES` for more.
#[tokio::test]
async fn scripts_of_limits_answer_and_keep_what_the_model_does() {
    let seed = number("LOCKKEEPER_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let histories = number("LOCKKEEPER_HISTORIES").unwrap_or(HISTORIES);
    for kind in STEPPED {
        let Some(redis) = SteppedRedis::start(kind).await else { continue };
        let config = Config { rng_seed: RngSeed::Fixed(seed), ..Config::default() };
        let mut runner = TestRunner::new(config);
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

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
