//! Every store of limits answers and keeps what the model does.

use lockkeeper_faults::ServerKind;
use lockkeeper_testkit::arm::{MemoryArm, SteppedRedis};
use lockkeeper_testkit::limits::differential;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// The servers whose wall clock can be stepped.
const STEPPED: [ServerKind; 2] = [ServerKind::Redis62, ServerKind::Valkey];
const HISTORIES: u64 = 150;
const LONGEST: usize = 60;

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
