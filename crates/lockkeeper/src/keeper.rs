//! The keeper: one per process and store. Everything else is made by it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::lock::{Durability, Fence, Identity, KeeperName};
use lockkeeper_core::{Clock, Error, Key, Keys, Prefix};
use lockkeeper_redis::{Lane, QuorumStore, RedisStore};

use crate::backend::Backend;
use crate::background::Background;
use crate::builder::KeeperBuilder;
use crate::chore::Chore;
use crate::limit::{Circuits, Purses, Returned};
use crate::lock::{GiveBack, Lines, Locals, Lock, Queues, Segments};
use crate::once::{self, Finish};

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
    pub(crate) limit_prefix: Prefix,
    pub(crate) once_prefix: Prefix,
    pub(crate) circuits: Circuits,
    pub(crate) purses: Purses,
    pub(crate) returned: Returned,
    pub(crate) identity: Identity,
    /// What others see of those who wait here.
    pub(crate) name: KeeperName,
    pub(crate) queues: Arc<Queues>,
    pub(crate) permits: Arc<Lines>,
    /// Who runs, and who waits for the end of it.
    pub(crate) onces: Arc<once::Lines>,
    pub(crate) response_timeout: Duration,
    /// Of locks that ask for no other.
    pub(crate) durability: Durability,
    pub(crate) held_count: AtomicUsize,
    pub(crate) seen_fence: AtomicU64,
    pub(crate) closed: AtomicBool,
    pub(crate) segments: Segments,
    pub(crate) locals: Locals,
    pub(crate) address: String,
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
        self.background.start_chore(Chore::GiveBack(what));
    }

    /// Goes on with the end of an attempt.
    pub(crate) fn finish(&self, what: Finish) {
        self.background.start_chore(Chore::Finish(what));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.background.stop_when_drained(self.clock.uptime());
    }
}

impl Keeper {
    /// Connects: `redis://`, `rediss://`, `unix://`; `redis+sentinel://`, `redis+cluster://` or `redis+quorum://` (see the guide on
    /// [Sentinel](crate::guide::sentinel), [clusters](crate::guide::cluster) and [majorities](crate::guide::quorum)); or
    /// `memory://` for a store inside this process.
    ///
    /// # Errors
    /// The URL names no server, or the server cannot be reached within 2 s or refuses.
    ///
    /// # Redis
    /// A probe of four commands in one round trip, after authentication.
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

    /// A lock on exactly this key, for sharing with clients of other libraries. To look at such keys, or to remove
    /// their holders, make a keeper with an empty prefix. Name a key in one way only: `lock("a")` and
    /// `lock_exact("lock:a")` exclude each other, but count their fences apart.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn lock_exact(&self, key: impl AsRef<[u8]>) -> Result<Lock, Error> {
        Ok(Lock::new(self.inner.clone(), Key::new(&Prefix::empty(), key)?.into()))
    }

    /// One lock on several names, all or nothing, in one round trip. They share one fence, greater than that of each
    /// of the keys. On a cluster they must lie in one slot (a common hash tag such as `{order}` does that), or taking the
    /// lock is refused before anything is sent; see [`Lock::across_slots`] for the other way.
    ///
    /// # Errors
    /// As [`lock`](Self::lock); no name, or more than 128.
    pub fn lock_all<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> Result<Lock, Error> {
        let keys: Result<Vec<Key>, Error> =
            names.into_iter().map(|name| Key::new(&self.inner.prefix, name)).collect();
        Ok(Lock::new(self.inner.clone(), Keys::new(keys?)?))
    }

    /// The store, for look-ups that this crate has no call for. `None` unless it is Redis.
    pub fn redis_store(&self) -> Option<&RedisStore> {
        match &self.inner.backend {
            Backend::Redis(lanes) => Some(lanes.on(Lane::Command)),
            _ => None,
        }
    }

    /// The majority of servers, for its status. `None` unless the keeper stands on one.
    pub fn quorum_store(&self) -> Option<&QuorumStore> {
        match &self.inner.backend {
            Backend::Quorum(store) => Some(store),
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
