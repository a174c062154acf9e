//! The keeper: one per process and store. Everything else is made by it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::lock::{
    Fence, ForceRelease, ForceReleaseReply, Holder, Identity, Inspect, Inspection, LockStore, OwnerToken,
    Release, ReleaseReply,
};
use lockkeeper_core::{Clock, Error, ErrorKind, Key, Keys, MemoryStore, Prefix, Timestamp};
use lockkeeper_redis::{Lane, RedisConfig, RedisStore, ServerInfo};

use crate::backend::Backend;
use crate::background::{Background, Context, Place};
use crate::clock::SystemClock;
use crate::lock::{ForceReleased, GiveBack, Lock, LossReason, Released};

/// What lock keys begin with unless [`KeeperBuilder::prefix`] says otherwise.
const DEFAULT_PREFIX: &str = "lock:";

/// Makes locks on one store. Cheap to clone; clones share connections, thread and clock.
#[derive(Clone)]
pub struct Keeper {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) backend: Backend,
    pub(crate) background: Background,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) prefix: Prefix,
    pub(crate) identity: Identity,
    pub(crate) response_timeout: Duration,
    pub(crate) held_count: AtomicUsize,
    seen_fence: AtomicU64,
    closed: AtomicBool,
    address: String,
}

impl Inner {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The highest fence that this keeper has seen, over all keys. Sent along with each acquire, it keeps fences
    /// growing for this keeper when a server has lost its side keys.
    pub(crate) fn seen_fence(&self) -> u64 {
        self.seen_fence.load(Ordering::Relaxed)
    }

    pub(crate) fn saw_fence(&self, fence: Fence) {
        self.seen_fence.fetch_max(fence.get(), Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, what: GiveBack) {
        self.background.give_back(what);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.background.stop_when_drained(self.clock.uptime());
    }
}

/// How a keeper stands. See [`Keeper::health`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Health {
    /// `memory`, `redis` or `other`.
    pub store: &'static str,
    /// The server's address, without credentials.
    pub address: String,
    /// The time that one request took, or why there was no answer.
    pub round_trip: Result<Duration, Error>,
    /// What the server is.
    pub server: Option<Arc<ServerInfo>>,
    /// The renewal connection stands (it is made with the first renewal).
    pub renewal_connected: bool,
    /// By how much the server's clock is ahead of this machine's, in microseconds.
    pub server_ahead_us: i64,
    /// Locks held through this keeper.
    pub held: usize,
    /// Releases and compensations under way.
    pub giving_back: usize,
}

/// What was left when a keeper was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Locks that were still held. Their guards are lost, their leases run out.
    pub still_held: usize,
    /// Releases and compensations that got no answer in time; they lapse with their leases.
    pub undone: usize,
}

impl Keeper {
    /// Connects: `redis://`, `rediss://`, `unix://`, or `memory://` for a store inside this process.
    ///
    /// # Errors
    /// The URL names no server, or the server cannot be reached within 2 s or refuses.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().url(url)?.connect().await
    }

    /// For everything that [`connect`](Self::connect) leaves at its default.
    pub fn builder() -> KeeperBuilder {
        KeeperBuilder::default()
    }

    /// A lock on `name`, under this keeper's prefix. See [`Key::new`] for what a name may be.
    ///
    /// # Errors
    /// The name is empty, too long, or begins with `~`.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Result<Lock, Error> {
        Ok(Lock::new(self.inner.clone(), Key::new(&self.inner.prefix, name)?.into()))
    }

    /// A lock on exactly this key, for sharing with clients of other libraries.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn lock_exact(&self, key: impl AsRef<[u8]>) -> Result<Lock, Error> {
        Ok(Lock::new(self.inner.clone(), Key::new(&Prefix::empty(), key)?.into()))
    }

    /// One lock on several names, all or nothing, in one round trip. They share one fence, greater than that of each
    /// of the keys.
    ///
    /// # Errors
    /// As [`lock`](Self::lock); no name, or more than 128.
    pub fn lock_all<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> Result<Lock, Error> {
        let keys: Result<Vec<Key>, Error> =
            names.into_iter().map(|name| Key::new(&self.inner.prefix, name)).collect();
        Ok(Lock::new(self.inner.clone(), Keys::new(keys?)?))
    }

    /// Who holds `name`, for how long, and its last fence.
    ///
    /// # Redis
    /// One read-only script, one round trip.
    ///
    /// # Errors
    /// As [`lock`](Self::lock); refused; unreachable.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn inspect(&self, name: impl AsRef<[u8]>) -> Result<Inspection, Error> {
        let keys = Keys::from(Key::new(&self.inner.prefix, name)?);
        let mut seen = self.inspect_all(&keys).await?;
        seen.pop().ok_or_else(|| Error::new(ErrorKind::Protocol, "inspect", "an empty reply").with_key(&keys))
    }

    pub(crate) async fn inspect_all(&self, keys: &Keys) -> Result<Vec<Inspection>, Error> {
        let answer =
            self.inner.backend.apply(Lane::Command, keys, Inspect, self.inner.response_timeout).await?;
        Ok(answer.reply)
    }

    /// Removes the holder that an operator was shown by [`inspect`](Self::inspect), and nobody else; raises the
    /// fence, so that a resource that checks fences refuses the removed holder as soon as the next one has written.
    /// Logged as a warning.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip.
    ///
    /// # Errors
    /// As [`lock`](Self::lock); not a lock; refused; unreachable; outcome unknown.
    ///
    /// # Cancel safety
    /// The holder may have been removed.
    pub async fn force_release(
        &self,
        name: impl AsRef<[u8]>,
        shown: &Holder,
    ) -> Result<ForceReleased, Error> {
        let keys = Keys::from(Key::new(&self.inner.prefix, name)?);
        let decision =
            ForceRelease { shown: shown.clone(), seen: self.inner.seen_fence(), not_after: Timestamp::MAX };
        let answer =
            self.inner.backend.apply(Lane::Command, &keys, decision, self.inner.response_timeout).await?;
        tracing::warn!(key = %keys, %shown, outcome = ?answer.reply, "forced release");
        Ok(match answer.reply {
            ForceReleaseReply::Released(fence) => ForceReleased::Released(fence),
            ForceReleaseReply::Free => ForceReleased::Free,
            ForceReleaseReply::HeldByAnother(holder) => ForceReleased::HeldByAnother(holder),
        })
    }

    /// Releases `name` if it is held with `token`, which may come from another process. Where the guard is at hand,
    /// [`LockGuard::release`](crate::LockGuard::release) knows more.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip. Inside: `TIME`, a `GET` and a `DEL`.
    ///
    /// # Errors
    /// As [`lock`](Self::lock); not a lock; refused; unreachable; outcome unknown. Repeating it is harmless, but then
    /// `Expired` may mean that the first one did it.
    ///
    /// # Cancel safety
    /// It may have been released.
    pub async fn release_token(&self, name: impl AsRef<[u8]>, token: &OwnerToken) -> Result<Released, Error> {
        let keys = Keys::from(Key::new(&self.inner.prefix, name)?);
        let decision = Release { token: token.clone() };
        let answer =
            self.inner.backend.apply(Lane::Command, &keys, decision, self.inner.response_timeout).await?;
        Ok(match answer.reply {
            ReleaseReply::Released => Released::Released,
            ReleaseReply::Expired(_) => Released::Expired,
            ReleaseReply::HeldByAnother(_, holder) => Released::HeldByAnother(holder),
        })
    }

    /// Asks the store for a sign of life, and says how this keeper stands. Never fails: trouble is part of the answer.
    ///
    /// # Redis
    /// One `TIME`, one round trip.
    pub async fn health(&self) -> Health {
        let inner = &self.inner;
        let started = inner.clock.uptime();
        let (answer, server, renewal_connected, server_ahead_us) = match &inner.backend {
            Backend::Redis(store) => {
                let answer = store.heartbeat(inner.response_timeout).await.map(|_| ());
                let server =
                    if answer.is_ok() { store.server_info(inner.response_timeout).await.ok() } else { None };
                (answer, server, store.on(Lane::Renewal).is_connected(), store.server_ahead_us())
            }
            _ => (Ok(()), None, true, 0),
        };
        Health {
            store: inner.backend.name(),
            address: inner.address.clone(),
            round_trip: answer.map(|()| inner.clock.uptime().since(started)),
            server,
            renewal_connected,
            server_ahead_us,
            held: inner.held_count.load(Ordering::Relaxed),
            giving_back: inner.background.pending(),
        }
    }

    /// Takes no more locks, waits (at most `limit`) until releases and compensations are done, and ends the keeper's
    /// thread. Locks that are still held are lost to their guards at once, and lapse with their leases: releasing
    /// them under a working holder would let a second one in.
    ///
    /// # Cancel safety
    /// The keeper stays closed, and goes on giving back; call it again to wait on.
    pub async fn close(&self, limit: Duration) -> Closed {
        let inner = &self.inner;
        inner.closed.store(true, Ordering::Release);
        let _ = tokio::time::timeout(limit, inner.background.drained()).await;
        let still_held =
            inner.background.held().iter().filter(|held| held.end(LossReason::KeeperClosed)).count();
        let undone = inner.background.pending();
        inner.background.stop(inner.clock.uptime(), Duration::ZERO);
        Closed { still_held, undone }
    }

    /// The store, for look-ups that this crate has no call for. `None` unless it is Redis.
    pub fn redis_store(&self) -> Option<&RedisStore> {
        match &self.inner.backend {
            Backend::Redis(store) => Some(store),
            _ => None,
        }
    }

    /// What this keeper's keys begin with.
    pub fn prefix(&self) -> &[u8] {
        self.inner.prefix.as_bytes()
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keeper({})", self.inner.address)
    }
}

/// Settings of a keeper.
#[derive(Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct KeeperBuilder {
    store: Chosen,
    prefix: Option<Prefix>,
    lazy: bool,
    owner: Option<String>,
    clock: Option<Arc<dyn Clock>>,
    place: Place,
    response_timeout: Option<Duration>,
}

#[derive(Default)]
enum Chosen {
    #[default]
    Memory,
    Redis(Box<RedisConfig>),
    Ready(Backend),
}

impl KeeperBuilder {
    /// Where locks live, as a URL. Without it, and with `memory://`, inside this process.
    ///
    /// # Errors
    /// Names the part of the URL that is at fault; never prints a password.
    pub fn url(self, url: &str) -> Result<Self, Error> {
        match url {
            "memory://" | "memory:" => Ok(Self { store: Chosen::Memory, ..self }),
            url if url.starts_with("memory:") => {
                Err(Error::bad_argument("url", "`memory://` takes nothing after it"))
            }
            url => Ok(self.redis(RedisConfig::from_url(url)?)),
        }
    }

    /// A Redis server with time-outs, credentials or certificates of your choice.
    pub fn redis(self, config: RedisConfig) -> Self {
        Self { store: Chosen::Redis(Box::new(config)), ..self }
    }

    /// A Redis store that you have, for example [on a connection of your own](lockkeeper_redis::redis1::adopt).
    pub fn redis_store(self, store: RedisStore) -> Self {
        Self { store: Chosen::Ready(Backend::Redis(store)), ..self }
    }

    /// A memory store that you have, to share it between keepers.
    pub fn memory_store(self, store: MemoryStore) -> Self {
        Self { store: Chosen::Ready(Backend::Memory(store)), ..self }
    }

    /// A store that you wrote.
    pub fn store(self, store: Arc<dyn LockStore>) -> Self {
        Self { store: Chosen::Ready(Backend::Other(store)), ..self }
    }

    /// What every key begins with, instead of `lock:`; may be empty.
    ///
    /// # Errors
    /// Longer than 4096 bytes, or with braces that are not one complete hash tag.
    pub fn prefix(self, prefix: impl AsRef<[u8]>) -> Result<Self, Error> {
        Ok(Self { prefix: Some(Prefix::new(prefix)?), ..self })
    }

    /// Connects with the first use instead of now, so that a service starts while Redis is away.
    pub fn lazy(self) -> Self {
        Self { lazy: true, ..self }
    }

    /// A label that people see beside host and process in every token.
    pub fn owner(self, label: &str) -> Self {
        Self { owner: Some(label.to_owned()), ..self }
    }

    /// Another clock, for tests.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Renews and gives back on the current runtime instead of a thread of its own. A runtime that is blocked then
    /// starves the renewals.
    pub fn on_current_runtime(self) -> Self {
        Self { place: Place::CurrentRuntime, ..self }
    }

    /// The longest time for one command, waiting for a connection included; 2 s by default.
    pub fn response_timeout(self, limit: Duration) -> Self {
        Self { response_timeout: Some(limit), ..self }
    }

    /// Makes the keeper.
    ///
    /// # Errors
    /// Unless lazy: the server cannot be reached within its connect time-out, or refuses.
    pub async fn connect(self) -> Result<Keeper, Error> {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let (backend, address) = match self.store {
            Chosen::Memory => (Backend::Memory(MemoryStore::new(clock.clone())), "memory://".to_owned()),
            Chosen::Ready(backend) => {
                let name = backend.name().to_owned();
                (backend, name)
            }
            Chosen::Redis(config) => {
                let config = match self.response_timeout {
                    Some(limit) => config.response_timeout(limit),
                    None => *config,
                };
                let address = config.address();
                let store = if self.lazy {
                    RedisStore::lazy(config, clock.clone())
                } else {
                    RedisStore::connect(config, clock.clone()).await?
                };
                (Backend::Redis(store), address)
            }
        };
        let response_timeout = match &backend {
            Backend::Redis(store) => store.response_timeout(),
            _ => self.response_timeout.unwrap_or(lockkeeper_redis::DEFAULT_RESPONSE_TIMEOUT),
        };
        let context = Context { backend: backend.clone(), clock: clock.clone(), response_timeout };
        let identity = Identity::new(&host_name(), std::process::id());
        let inner = Inner {
            background: Background::start(context, self.place)?,
            backend,
            clock,
            prefix: self.prefix.map_or_else(|| Prefix::new(DEFAULT_PREFIX), Ok)?,
            identity: identity.labelled(self.owner.as_deref().unwrap_or_default()),
            response_timeout,
            held_count: AtomicUsize::new(0),
            seen_fence: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            address,
        };
        Ok(Keeper { inner: Arc::new(inner) })
    }
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}
