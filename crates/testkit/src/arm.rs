//! The arms of a test: the same scenario on the memory store with its manual clock, and on a real server whose wall
//! clock is stepped.

mod cluster;
mod once;
mod permits;
mod quorum;
mod six;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::core::lock::{
    FenceMark, LockCell, LockStore, Main, Occupant, OwnerToken, RaiseFence, RaiseFenceReply, StoreFuture,
};
use lockkeeper::core::{Apply, Clock, Key, Keys, ManualClock, MemoryStore, Prefix, Timestamp};
use lockkeeper::redis::{RedisConfig, RedisStore, fence_key};
use lockkeeper_faults::{FakeClock, RedisServer, SentinelGroup, ServerKind, available, faketime_available};

pub use self::cluster::{InOneSlot, SteppedCluster};
pub use self::once::{OnceArm, OnceKept, OncePlant, OnceStore, once_key};
pub use self::permits::{PermitArm, PermitPlant, PermitStore};
pub use self::quorum::SteppedQuorum;
pub use self::six::{RealCluster, UnderTag};

/// What a foreign client may leave behind.
#[derive(Clone, Debug)]
pub enum Plant {
    /// The main key becomes a list.
    MainList,
    /// The main key becomes this string, with this many milliseconds to live, or no expiry.
    MainText(Vec<u8>, Option<u64>),
    /// The main key goes.
    MainGone,
    /// The fence key becomes a list.
    FenceList,
    /// The fence key becomes this string, for a day if it is a fence.
    FenceText(Vec<u8>),
    /// The fence key goes, as by eviction.
    FenceGone,
}

/// What a majority of stores asks of each.
pub trait FenceStore: Send + Sync {
    /// Applies a [`RaiseFence`].
    fn raise_fence<'a>(
        &'a self,
        at: &'a Keys,
        decision: RaiseFence,
        within: Duration,
    ) -> StoreFuture<'a, RaiseFenceReply>;
}

impl<S: Apply<RaiseFence>> FenceStore for S {
    fn raise_fence<'a>(
        &'a self,
        at: &'a Keys,
        decision: RaiseFence,
        within: Duration,
    ) -> StoreFuture<'a, RaiseFenceReply> {
        Box::pin(self.apply(at, decision, within))
    }
}

/// A store under a clock that a test steps.
pub trait Arm: Send + Sync {
    /// For messages.
    fn name(&self) -> String;
    /// The store.
    fn store(&self) -> &dyn LockStore;
    /// The same store, for what only majorities ask of it.
    fn fences(&self) -> &dyn FenceStore;
    /// Lets time pass, for the store and its server.
    fn advance(&self, by: Duration);
    /// Sets the server's clock back, which its clients do not notice.
    fn step_back(&self, by: Duration);
    /// Does what a foreign client might.
    fn plant(&self, key: &Key, plant: &Plant);
}

/// The model.
pub struct MemoryArm {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: MemoryStore,
}

impl Default for MemoryArm {
    fn default() -> Self {
        let clock = Arc::new(ManualClock::default());
        Self { store: MemoryStore::new(clock.clone()), clock }
    }
}

const DAY_MS: u64 = 86_400_000;

impl Arm for MemoryArm {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn store(&self) -> &dyn LockStore {
        &self.store
    }

    fn fences(&self) -> &dyn FenceStore {
        &self.store
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn step_back(&self, by: Duration) {
        self.clock.set_wall(self.clock.wall().before(by));
    }

    fn plant(&self, key: &Key, plant: &Plant) {
        let now_ms = self.clock.wall().as_millis();
        self.store.tamper(key, |cell: &mut LockCell| match plant {
            Plant::MainList => cell.main = Main::WrongType,
            Plant::MainText(text, ttl) => {
                let token = OwnerToken::given(text).expect("a token");
                cell.main = Main::Held(Occupant { token, expires_ms: ttl.map(|ttl| now_ms + ttl) });
            }
            Plant::MainGone => cell.main = Main::Free,
            Plant::FenceList => cell.fence = FenceMark::WrongType,
            Plant::FenceText(text) => {
                cell.fence = match lockkeeper::core::lock::parse_fence(text) {
                    Some(number) => FenceMark::Last { number, expires_ms: now_ms + DAY_MS },
                    None => FenceMark::WrongType,
                }
            }
            Plant::FenceGone => cell.fence = FenceMark::Absent,
        });
    }
}

/// A real server under a stepped wall clock.
pub struct SteppedRedis {
    kind: ServerKind,
    servers: Servers,
    server_clock: FakeClock,
    local: Arc<ManualClock>,
    store: RedisStore,
}

impl SteppedRedis {
    /// `None`, after a loud line, where the binaries are missing; a panic in CI.
    pub async fn start(kind: ServerKind) -> Option<Self> {
        if !available(kind) || !faketime_available() {
            return None;
        }
        let local = Arc::new(ManualClock::default());
        let server_clock = FakeClock::new(local.wall().as_micros()).expect("a stepped clock");
        let server = RedisServer::builder().kind(kind).faketime(&server_clock).start().expect("a server");
        Some(Self::on(kind, server, server_clock, local, "redis").await)
    }

    async fn on(
        kind: ServerKind,
        server: RedisServer,
        server_clock: FakeClock,
        local: Arc<ManualClock>,
        scheme: &str,
    ) -> Self {
        let url = format!("{scheme}://127.0.0.1:{}", server.port());
        let store = connected(&url, &local).await;
        Self { kind, servers: Servers::One(server), server_clock, local, store }
    }

    /// The same for a primary with a replica, both under the stepped clock, found through three Sentinels, which have a
    /// real one.
    pub async fn start_with_sentinels(kind: ServerKind) -> Option<Self> {
        if !available(kind) || !faketime_available() {
            return None;
        }
        let local = Arc::new(ManualClock::default());
        let server_clock = FakeClock::new(local.wall().as_micros()).expect("a stepped clock");
        let builder = RedisServer::builder().kind(kind).faketime(&server_clock);
        let group = SentinelGroup::builder().server(builder).replicas(1).start().expect("a group");
        let store = connected(&group.url(), &local).await;
        Some(Self { kind, servers: Servers::Watched(group), server_clock, local, store })
    }

    /// Steps the server's wall clock alone, which its clients do not notice.
    pub fn set_server_clock(&self, micros: u64) {
        self.server_clock.set(micros).expect("the clock is set");
    }

    /// The server's wall clock.
    pub fn server_clock(&self) -> u64 {
        self.server_clock.now()
    }

    /// The store.
    pub fn redis(&self) -> &RedisStore {
        &self.store
    }

    /// The server, or the primary.
    pub fn server(&self) -> &RedisServer {
        match &self.servers {
            Servers::One(server) => server,
            Servers::Watched(group) => &group.servers()[0],
        }
    }

    pub(crate) fn command(&self, parts: &[&[u8]]) {
        command(self.server(), parts);
    }
}

enum Servers {
    One(RedisServer),
    Watched(SentinelGroup),
}

async fn connected(url: &str, local: &Arc<ManualClock>) -> RedisStore {
    let config = RedisConfig::from_url(url).expect("a URL");
    RedisStore::connect(config, local.clone()).await.expect("a connection")
}

impl Arm for SteppedRedis {
    fn name(&self) -> String {
        match self.servers {
            Servers::One(_) => self.kind.to_string(),
            Servers::Watched(_) => format!("{} with Sentinels", self.kind),
        }
    }

    fn store(&self) -> &dyn LockStore {
        &self.store
    }

    fn fences(&self) -> &dyn FenceStore {
        &self.store
    }

    fn advance(&self, by: Duration) {
        self.local.advance(by);
        self.server_clock.advance(by).expect("the clock is moved");
    }

    fn step_back(&self, by: Duration) {
        let now = Timestamp::from_micros(self.server_clock());
        self.set_server_clock(now.before(by).as_micros());
    }

    fn plant(&self, key: &Key, plant: &Plant) {
        plant_at(self.server(), key, plant);
    }
}

/// Does at one server what a foreign client might.
fn plant_at(server: &RedisServer, key: &Key, plant: &Plant) {
    let (main, fence) = (key.as_bytes(), fence_key(key));
    match plant {
        Plant::MainList => {
            command(server, &[b"DEL", main]);
            command(server, &[b"RPUSH", main, b"x"]);
        }
        Plant::MainText(text, None) => command(server, &[b"SET", main, text]),
        Plant::MainText(text, Some(ttl)) => {
            command(server, &[b"SET", main, text, b"PX", ttl.to_string().as_bytes()]);
        }
        Plant::MainGone => command(server, &[b"DEL", main]),
        Plant::FenceList => {
            command(server, &[b"DEL", &fence]);
            command(server, &[b"RPUSH", &fence, b"x"]);
        }
        // What is no fence has no expiry in the model.
        Plant::FenceText(text) if lockkeeper::core::lock::parse_fence(text).is_none() => {
            command(server, &[b"SET", &fence, text]);
        }
        Plant::FenceText(text) => {
            command(server, &[b"SET", &fence, text, b"PX", DAY_MS.to_string().as_bytes()]);
        }
        Plant::FenceGone => command(server, &[b"DEL", &fence]),
    }
}

fn command(server: &RedisServer, parts: &[&[u8]]) {
    let reply = server.command_bytes(parts).expect("a reply");
    assert!(!reply.is_error(), "{reply:?}");
}

/// The lock key of `name` under `lock:`.
pub fn key(name: &str) -> Key {
    Key::new(&Prefix::new("lock:").expect("a prefix"), name).expect("a key")
}
