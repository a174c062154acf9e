//! A majority of real servers under one stepped wall clock.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::core::lock::LockStore;
use lockkeeper::core::{Answer, Apply, Clock, Decision, Error, Key, Keys, ManualClock, Timestamp};
use lockkeeper::redis::{QuorumConfig, QuorumStore, RedisConfig, RedisStore};
use lockkeeper_faults::{FakeClock, RedisServer, ServerKind, available, faketime_available};

use super::{Arm, FenceStore, Plant, plant_at};

/// Independent servers whose clocks go together.
pub struct SteppedQuorum {
    servers: Vec<RedisServer>,
    server_clock: FakeClock,
    local: Arc<ManualClock>,
    store: Settled,
    /// One of them by itself.
    first: RedisStore,
}

/// What cannot be given back under a clock that stands still is not waited for.
const GIVEN_BACK: Duration = Duration::from_secs(1);

/// Answers when every server has: a majority answers before, and the others would find the clock stepped.
struct Settled(QuorumStore);

impl<D: Decision> Apply<D> for Settled
where
    QuorumStore: Apply<D>,
{
    async fn apply(&self, at: &Keys, decision: D, within: Duration) -> Result<Answer<D::Reply>, Error> {
        let answer = self.0.apply(at, decision, within).await;
        // On the same connections, so behind whatever is under way there.
        self.0.status().await;
        let _ = tokio::time::timeout(GIVEN_BACK, self.0.given_back()).await;
        answer
    }
}

impl SteppedQuorum {
    /// `None`, after a loud line, where the binaries are missing; a panic in CI.
    pub async fn start(kind: ServerKind, count: usize, max_lease: Duration) -> Option<Self> {
        if !available(kind) || !faketime_available() {
            return None;
        }
        let local = Arc::new(ManualClock::default());
        let server_clock = FakeClock::new(local.wall().as_micros()).expect("a stepped clock");
        let start = |_| RedisServer::builder().kind(kind).faketime(&server_clock).start().expect("a server");
        let servers: Vec<_> = (0..count).map(start).collect();
        let configs = servers.iter().map(|server| RedisConfig::from_url(&server.url()).expect("a URL"));
        let config = QuorumConfig::new(configs).and_then(|config| config.max_lease(max_lease));
        let store =
            QuorumStore::connect(config.expect("a majority"), local.clone()).await.expect("connections");
        store.init(false).await.expect("a new majority");
        let first = RedisConfig::from_url(&servers[0].url()).expect("a URL");
        let first = RedisStore::lazy(first, local.clone());
        Some(Self { servers, server_clock, local, store: Settled(store), first })
    }
}

impl Arm for SteppedQuorum {
    fn name(&self) -> String {
        format!("a majority of {}", self.servers.len())
    }

    fn store(&self) -> &dyn LockStore {
        &self.store
    }

    fn fences(&self) -> &dyn FenceStore {
        &self.first
    }

    fn advance(&self, by: Duration) {
        self.local.advance(by);
        self.server_clock.advance(by).expect("the clock is moved");
    }

    fn step_back(&self, by: Duration) {
        let now = Timestamp::from_micros(self.server_clock.now());
        self.server_clock.set(now.before(by).as_micros()).expect("the clock is set");
    }

    fn plant(&self, key: &Key, plant: &Plant) {
        self.servers.iter().for_each(|server| plant_at(server, key, plant));
    }
}
