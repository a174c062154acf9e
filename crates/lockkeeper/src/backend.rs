//! The stores that a keeper can stand on, behind one call.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::idempotency::{Abandon, Begin, Complete, InspectOnce, KeepAlive, Resolve};
use lockkeeper_core::limit::{Check, LimitCell, Peek, Refund, Reset};
use lockkeeper_core::lock::permit::{AcquirePermit, InspectPermits, ReleasePermit, RenewPermit};
use lockkeeper_core::lock::{
    Acquire, Durability, ForceRelease, Inspect, Lasting, Leasing, Leave, LockStore, Release, Renew,
    StoreFuture, Swap, Watch,
};
use lockkeeper_core::memory::InMemory;
use lockkeeper_core::{Answer, Apply, Decision, Error, ErrorKind, Keys, MemoryStore, Timestamp};
use lockkeeper_redis::port::Port;
use lockkeeper_redis::{Lane, QuorumStore, QuorumWatcher, RedisStore, Watcher};

/// Where locks live.
#[derive(Clone)]
pub(crate) enum Backend {
    Memory(MemoryStore),
    Redis(Lanes),
    /// A majority of independent servers.
    Quorum(QuorumStore),
    Other(Arc<dyn LockStore>),
}

/// What a majority of independent servers cannot do safely: they have no single place where a count or a record would be
/// right.
const LOCKS_ONLY: &str = "a majority of independent servers has locks only: no limits, records or permits";

/// Is told of changes, by one server or by several.
pub(crate) enum AnyWatcher {
    One(Watcher),
    Quorum(QuorumWatcher),
}

impl AnyWatcher {
    pub(crate) async fn changed(&self) {
        match self {
            Self::One(watcher) => watcher.changed().await,
            Self::Quorum(watcher) => watcher.changed().await,
        }
    }
}

/// A store's three connections. Kept apart, so that no command has to clone a handle.
#[derive(Clone)]
pub(crate) struct Lanes([RedisStore; 3]);

impl Lanes {
    pub(crate) fn new(store: &RedisStore) -> Self {
        Self([Lane::Command, Lane::Renewal, Lane::Waiting].map(|lane| store.on(lane)))
    }

    pub(crate) fn on(&self, lane: Lane) -> &RedisStore {
        &self.0[lane as usize]
    }
}

/// A decision about leases. Every back end can apply those of locks; stores of other people know nothing else.
pub(crate) trait LeaseDecision: Decision<State: InMemory> {
    fn on_redis(
        self,
        store: &RedisStore,
        at: &Keys,
        within: Duration,
    ) -> impl Future<Output = Result<Answer<Self::Reply>, Error>> + Send;
    fn on_quorum(
        self,
        store: &QuorumStore,
        lane: Lane,
        at: &Keys,
        within: Duration,
    ) -> impl Future<Output = Result<Answer<Self::Reply>, Error>> + Send;
    fn on_other<'a>(
        self,
        store: &'a dyn LockStore,
        at: &'a Keys,
        within: Duration,
    ) -> StoreFuture<'a, Self::Reply>;
}

macro_rules! lock_decisions {
    ($($decision:ty => $method:ident),* $(,)?) => {$(
        impl LeaseDecision for $decision {
            fn on_redis(self, store: &RedisStore, at: &Keys, within: Duration) -> impl Future<Output = Result<Answer<Self::Reply>, Error>> + Send {
                store.apply(at, self, within)
            }
            async fn on_quorum(self, store: &QuorumStore, lane: Lane, at: &Keys, within: Duration) -> Result<Answer<Self::Reply>, Error> {
                store.on(lane).apply(at, self, within).await
            }
            fn on_other<'a>(self, store: &'a dyn LockStore, at: &'a Keys, within: Duration) -> StoreFuture<'a, Self::Reply> {
                store.$method(at, self, within)
            }
        }
    )*};
}

lock_decisions! {
    Acquire => acquire,
    Watch => watch,
    Leave => leave,
    Renew => renew,
    Release => release,
    Swap => swap,
    ForceRelease => force_release,
    Inspect => inspect,
}

macro_rules! own_decisions {
    ($($decision:ty),* $(,)?) => {$(
        impl LeaseDecision for $decision {
            fn on_redis(self, store: &RedisStore, at: &Keys, within: Duration) -> impl Future<Output = Result<Answer<Self::Reply>, Error>> + Send {
                store.apply(at, self, within)
            }
            async fn on_quorum(self, _: &QuorumStore, _: Lane, at: &Keys, _: Duration) -> Result<Answer<Self::Reply>, Error> {
                Err(Error::new(ErrorKind::Unsupported, Self::NAME, LOCKS_ONLY).with_key(at))
            }
            fn on_other<'a>(self, _: &'a dyn LockStore, at: &'a Keys, _: Duration) -> StoreFuture<'a, Self::Reply> {
                let refused = Error::new(ErrorKind::Unsupported, Self::NAME, "this store keeps locks only");
                Box::pin(std::future::ready(Err(refused.with_key(at))))
            }
        }
    )*};
}

own_decisions!(AcquirePermit, RenewPermit, ReleasePermit, InspectPermits);
own_decisions!(Begin, KeepAlive, Complete, Abandon, Resolve, InspectOnce);

/// A decision of limits: every back end but those of others can apply it.
pub(crate) trait LimitDecision: Decision<State = LimitCell> {
    fn on_redis(
        self,
        store: &RedisStore,
        at: &Keys,
        within: Duration,
    ) -> impl Future<Output = Result<Answer<Self::Reply>, Error>> + Send;
}

macro_rules! limit_decisions {
    ($($decision:ty),* $(,)?) => {$(
        impl LimitDecision for $decision {
            fn on_redis(self, store: &RedisStore, at: &Keys, within: Duration) -> impl Future<Output = Result<Answer<Self::Reply>, Error>> + Send {
                store.apply(at, self, within)
            }
        }
    )*};
}

limit_decisions!(Check, Peek, Refund, Reset);

impl Backend {
    /// Applies a decision of limits, on Redis over the command connection.
    pub(crate) async fn apply_limit<D: LimitDecision>(
        &self,
        at: &Keys,
        decision: D,
        within: Duration,
    ) -> Result<Answer<D::Reply>, Error> {
        match self {
            Self::Memory(store) => store.apply_now(at, decision, within),
            Self::Redis(lanes) => decision.on_redis(lanes.on(Lane::Command), at, within).await,
            Self::Quorum(_) => Err(Error::new(ErrorKind::Unsupported, D::NAME, LOCKS_ONLY)),
            Self::Other(_) => Err(Error::new(ErrorKind::Unsupported, D::NAME, "this store has locks only")),
        }
    }

    /// Which server of a cluster keeps `at`. `None`: there is one server only, or it is not known.
    pub(crate) fn server_of(&self, at: &Keys) -> Option<u16> {
        match self {
            Self::Redis(lanes) => lanes.on(Lane::Command).server_of(at),
            _ => None,
        }
    }

    /// It is known to be a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        match self {
            Self::Redis(lanes) => lanes.on(Lane::Command).is_cluster(),
            _ => false,
        }
    }

    /// Applies `decision`; on Redis, over the connection of `lane`.
    pub(crate) async fn apply<D: LeaseDecision>(
        &self,
        lane: Lane,
        at: &Keys,
        decision: D,
        within: Duration,
    ) -> Result<Answer<D::Reply>, Error> {
        match self {
            Self::Memory(store) => store.apply_now(at, decision, within),
            Self::Redis(lanes) => decision.on_redis(lanes.on(lane), at, within).await,
            Self::Quorum(store) => decision.on_quorum(store, lane, at, within).await,
            Self::Other(store) => decision.on_other(&**store, at, within).await,
        }
    }

    /// The same, and waits until `level` is met; see [`RedisStore::apply_lasting`].
    pub(crate) async fn apply_lasting<D: LeaseDecision + Leasing + Port>(
        &self,
        level: Durability,
        lane: Lane,
        at: &Keys,
        decision: D,
        within: Duration,
    ) -> Result<Lasting<D::Reply>, Error> {
        match self {
            _ if level.is_accepted() => self.apply(lane, at, decision, within).await.map(Lasting::met),
            // In a box, so that those who ask for nothing carry no room for it.
            Self::Redis(lanes) => Box::pin(lanes.on(lane).apply_lasting(at, decision, level, within)).await,
            _ => Err(self.cannot_last(level, D::NAME).with_key(at)),
        }
    }

    /// The store can be asked for `level`, as far as that is known before something is taken.
    pub(crate) async fn check_lasting(
        &self,
        level: Durability,
        lane: Lane,
        at: &Keys,
        within: Duration,
    ) -> Result<(), Error> {
        match self {
            _ if level.is_accepted() => Ok(()),
            Self::Redis(lanes) => Box::pin(lanes.on(lane).check_lasting(at, level, within)).await,
            _ => Err(self.cannot_last(level, "durability").with_key(at)),
        }
    }

    fn cannot_last(&self, level: Durability, operation: &'static str) -> Error {
        let detail = format!("{level}: the store `{}` has no replicas or disks to wait for", self.name());
        Error::new(ErrorKind::Unsupported, operation, detail)
    }

    /// The time now of the server that keeps `at`, as far as is known. `None`: not known.
    pub(crate) fn server_now_at(&self, at: &Keys) -> Option<Timestamp> {
        match self {
            Self::Memory(store) => Some(store.now()),
            Self::Redis(lanes) => Some(lanes.on(Lane::Command).server_now_at(at)),
            // No server's clock is that of a majority. What is in doubt at which server is its own concern.
            Self::Quorum(_) | Self::Other(_) => None,
        }
    }

    /// Fails where the store has locks only.
    pub(crate) fn check_more_than_locks(&self, operation: &'static str) -> Result<(), Error> {
        let why = match self {
            Self::Memory(_) | Self::Redis(_) => return Ok(()),
            Self::Quorum(_) => LOCKS_ONLY,
            Self::Other(_) => "this store has locks only",
        };
        Err(Error::new(ErrorKind::Unsupported, operation, why))
    }

    /// Fails where permits cannot be counted. (A store of somebody else says so when it is asked.)
    pub(crate) fn check_permits(&self) -> Result<(), Error> {
        match self {
            Self::Quorum(_) => self.check_more_than_locks("concurrency"),
            _ => Ok(()),
        }
    }

    /// Is told of changes of `keys` by the waiting connections, where there are any.
    pub(crate) fn watcher(&self, keys: &Keys) -> Option<AnyWatcher> {
        match self {
            Self::Redis(lanes) => lanes.on(Lane::Waiting).watcher(keys).map(AnyWatcher::One),
            Self::Quorum(store) => Some(AnyWatcher::Quorum(store.watcher(keys))),
            Self::Memory(_) | Self::Other(_) => None,
        }
    }

    /// Whether changes of `keys` are told at the moment, and whether the server refused to tell them.
    pub(crate) fn hearing(&self, keys: &Keys) -> Option<(bool, bool)> {
        match self {
            Self::Redis(lanes) => {
                let waiting = lanes.on(Lane::Waiting);
                Some((waiting.hears_changes(keys), waiting.may_not_hear()))
            }
            Self::Quorum(store) => Some((store.hears_changes(keys), store.may_not_hear())),
            Self::Memory(_) | Self::Other(_) => None,
        }
    }

    /// Servers at which something is being given back, beside what the keeper gives back.
    pub(crate) fn giving_back(&self) -> usize {
        match self {
            Self::Quorum(store) => store.giving_back(),
            _ => 0,
        }
    }

    /// Waits until nothing of that is left.
    pub(crate) async fn given_back(&self) {
        if let Self::Quorum(store) = self {
            store.given_back().await;
        }
    }

    /// Changes when another server has become the primary for `at`. 0 where none does.
    pub(crate) fn term(&self, at: &Keys) -> u64 {
        match self {
            Self::Redis(lanes) => lanes.on(Lane::Command).term(at),
            Self::Memory(_) | Self::Quorum(_) | Self::Other(_) => 0,
        }
    }

    /// For people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
            Self::Quorum(_) => "quorum",
            Self::Other(_) => "other",
        }
    }
}
