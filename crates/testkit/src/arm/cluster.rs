//! The arm of a cluster: one server that keeps all slots, under a stepped wall clock, reached as a cluster.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::core::limit::{Algorithm, LimitCell};
use lockkeeper::core::lock::LockStore;
use lockkeeper::core::{Answer, Apply, Clock, Error, Key, Keys, ManualClock, Prefix, Timestamp};
use lockkeeper::redis::RedisStore;
use lockkeeper::redis::port::Port;
use lockkeeper_faults::{FakeClock, RedisServer, ServerKind, available, faketime_available};

use super::{Arm, FenceStore, Plant, SteppedRedis};
use crate::limits::{LimitArm, Plant as LimitPlant};

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;
const TAG: &str = "{t}";
/// A cluster serves nothing in its first seconds.
const FIRST_SECONDS: Duration = Duration::from_secs(5);
const TRIES: u32 = 200;

/// A cluster of one server.
pub struct SteppedCluster {
    server: SteppedRedis,
    store: InOneSlot,
}

impl SteppedCluster {
    /// `None`, after a loud line, where the binaries are missing; a panic in CI.
    pub async fn start(kind: ServerKind) -> Option<Self> {
        if !available(kind) || !faketime_available() {
            return None;
        }
        let local = Arc::new(ManualClock::default());
        let clock = FakeClock::new(local.wall().as_micros()).expect("a stepped clock");
        let builder = RedisServer::builder().kind(kind).faketime(&clock).config("cluster-enabled", "yes");
        let server = start_on_a_low_port(&builder);
        form(&server, &clock, &local).await;
        let server = SteppedRedis::on(kind, server, clock, local, "redis+cluster").await;
        let store = InOneSlot(server.redis().clone());
        Some(Self { server, store })
    }

    /// The same without the common hash tag: for decisions of one key.
    pub fn server(&self) -> &SteppedRedis {
        &self.server
    }
}

/// The bus has the port 10,000 above.
fn start_on_a_low_port(builder: &lockkeeper_faults::ServerBuilder) -> RedisServer {
    let mut tries = 0..TRIES;
    let started = tries.find_map(|_| builder.clone().start().ok());
    started.expect("a server")
}

async fn form(server: &RedisServer, clock: &FakeClock, local: &ManualClock) {
    let slots: Vec<String> = (0..SLOTS).map(|slot| slot.to_string()).collect();
    let words: Vec<&str> =
        ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
    assert!(!server.command(&words).expect("a reply").is_error());
    for _ in 0..TRIES {
        let info = server.command(&["CLUSTER", "INFO"]).expect("a reply");
        if info.as_str().is_some_and(|info| info.contains("cluster_state:ok")) {
            return;
        }
        clock.advance(FIRST_SECONDS).expect("the clock is moved");
        local.advance(FIRST_SECONDS);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the cluster does not come up");
}

/// The same keys with a common hash tag, so that several of them may be in one step.
#[derive(Clone, Debug)]
pub struct InOneSlot(RedisStore);

impl<D: Port> Apply<D> for InOneSlot {
    async fn apply(&self, at: &Keys, decision: D, within: Duration) -> Result<Answer<D::Reply>, Error> {
        let answer = self.0.apply(&all_tagged(at), decision, within).await;
        answer.map_err(|error| match error.key().map(|key| key.replace(TAG, "")) {
            Some(key) => error.with_key(key),
            None => error,
        })
    }
}

fn tagged(key: &Key) -> Key {
    let prefix = [TAG.as_bytes(), key.prefix()].concat();
    let prefix = Prefix::new(String::from_utf8(prefix).expect("text")).expect("a prefix");
    Key::new(&prefix, key.name()).expect("a key")
}

fn all_tagged(keys: &Keys) -> Keys {
    Keys::in_order(keys.as_slice().iter().map(tagged).collect()).expect("keys")
}

impl Arm for SteppedCluster {
    fn name(&self) -> String {
        format!("a cluster of {}", self.server.name())
    }

    fn store(&self) -> &dyn LockStore {
        &self.store
    }

    fn fences(&self) -> &dyn FenceStore {
        &self.store
    }

    fn advance(&self, by: Duration) {
        self.server.advance(by);
    }

    fn step_back(&self, by: Duration) {
        self.server.step_back(by);
    }

    fn plant(&self, key: &Key, plant: &Plant) {
        self.server.plant(&tagged(key), plant);
    }
}

impl LimitArm for SteppedCluster {
    type Store = InOneSlot;

    fn limits(&self) -> &InOneSlot {
        &self.store
    }

    fn now(&self) -> Timestamp {
        self.server.now()
    }

    fn set_clock(&self, to: Timestamp) {
        self.server.set_clock(to);
    }

    fn plant_limit(&self, key: &Key, algorithm: Algorithm, plant: &LimitPlant) {
        self.server.plant_limit(&tagged(key), algorithm, plant);
    }

    async fn kept(&self, at: &Keys, algorithms: &[Algorithm]) -> Vec<LimitCell> {
        self.server.kept(&all_tagged(at), algorithms).await
    }
}
