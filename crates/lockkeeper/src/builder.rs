//! Making a keeper: where locks live, and everything that has a default.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

use lockkeeper_core::lock::{Durability, Identity, LockStore};
use lockkeeper_core::{Clock, Error, MemoryStore, Prefix};
use lockkeeper_redis::{
    DEFAULT_RESPONSE_TIMEOUT, Lane, MAX_RESPONSE_TIMEOUT, QuorumConfig, QuorumStore, RedisConfig, RedisStore,
};

use crate::backend::{Backend, Lanes};
use crate::background::{Background, Context, Place};
use crate::clock::SystemClock;
use crate::keeper::{Inner, Keeper};
use crate::limit::Circuits;
use crate::limit::{Purses, Returned};
use crate::lock::{Locals, Queues, Segments};
use crate::telemetry;

/// What lock keys begin with unless [`KeeperBuilder::prefix`] says otherwise.
const DEFAULT_PREFIX: &str = "lock:";
/// What limit keys begin with unless [`KeeperBuilder::limit_prefix`] says otherwise.
const DEFAULT_LIMIT_PREFIX: &str = "limit:";
/// What keys of idempotency begin with unless [`KeeperBuilder::once_prefix`] says otherwise.
const DEFAULT_ONCE_PREFIX: &str = "once:";

/// Settings of a keeper.
#[derive(Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct KeeperBuilder {
    store: Chosen,
    prefix: Option<Prefix>,
    limit_prefix: Option<Prefix>,
    once_prefix: Option<Prefix>,
    lazy: bool,
    owner: Option<String>,
    clock: Option<Arc<dyn Clock>>,
    place: Place,
    response_timeout: Option<Duration>,
    durability: Durability,
    without_scripts: bool,
}

#[derive(Default)]
enum Chosen {
    #[default]
    Memory,
    Redis(Box<RedisConfig>),
    Quorum(QuorumConfig),
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
            url if url.starts_with("redis+quorum:") || url.starts_with("rediss+quorum:") => {
                Ok(self.quorum(QuorumConfig::from_url(url)?))
            }
            url => Ok(self.redis(RedisConfig::from_url(url)?)),
        }
    }

    /// A Redis server with time-outs, credentials or certificates of your choice.
    pub fn redis(self, config: RedisConfig) -> Self {
        Self { store: Chosen::Redis(Box::new(config)), ..self }
    }

    /// A majority of independent servers, with settings of your choice: for locks only. See
    /// [the guide](crate::guide::quorum).
    pub fn quorum(self, config: QuorumConfig) -> Self {
        Self { store: Chosen::Quorum(config), ..self }
    }

    /// A Redis store that you have, for example [on a connection of your own](lockkeeper_redis::redis1::adopt).
    #[expect(clippy::needless_pass_by_value, reason = "a builder takes what it keeps")]
    pub fn redis_store(self, store: RedisStore) -> Self {
        Self { store: Chosen::Ready(Backend::Redis(Lanes::new(&store))), ..self }
    }

    /// A memory store that you have, to share it between keepers.
    pub fn memory_store(self, store: MemoryStore) -> Self {
        Self { store: Chosen::Ready(Backend::Memory(store)), ..self }
    }

    /// A store that you wrote.
    pub fn store(self, store: Arc<dyn LockStore>) -> Self {
        Self { store: Chosen::Ready(Backend::Other(store)), ..self }
    }

    /// What every lock's key begins with, instead of `lock:`; may be empty.
    ///
    /// # Errors
    /// Longer than 4096 bytes, or with braces that are not one complete hash tag.
    pub fn prefix(self, prefix: impl AsRef<[u8]>) -> Result<Self, Error> {
        Ok(Self { prefix: Some(Prefix::new(prefix)?), ..self })
    }

    /// What every limit's key begins with, instead of `limit:`; may be empty.
    ///
    /// # Errors
    /// As [`prefix`](Self::prefix).
    pub fn limit_prefix(self, prefix: impl AsRef<[u8]>) -> Result<Self, Error> {
        Ok(Self { limit_prefix: Some(Prefix::new(prefix)?), ..self })
    }

    /// What every key of idempotency begins with, instead of `once:`; may be empty.
    ///
    /// # Errors
    /// As [`prefix`](Self::prefix).
    pub fn once_prefix(self, prefix: impl AsRef<[u8]>) -> Result<Self, Error> {
        Ok(Self { once_prefix: Some(Prefix::new(prefix)?), ..self })
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

    /// The longest time for one command, waiting for a connection included; 2 s by default, at most 60 s. A ready
    /// [`redis_store`](Self::redis_store) keeps its own.
    pub fn response_timeout(self, limit: Duration) -> Self {
        Self { response_timeout: Some(limit.min(MAX_RESPONSE_TIMEOUT)), ..self }
    }

    /// How durable the steps of locks and permits have to be that do not [say otherwise](crate::Lock::durability); *accepted*
    /// by default. Idempotency and limits are always *accepted*.
    pub fn durability(self, level: Durability) -> Self {
        Self { durability: level, ..self }
    }

    /// Where a Redis server forbids scripts, makes do with plain locks, which have **no fence**: see
    /// [`RedisConfig::without_scripts`]. Nothing else works there. A ready [`redis_store`](Self::redis_store) keeps its own
    /// way.
    pub fn without_scripts(self) -> Self {
        Self { without_scripts: true, ..self }
    }

    /// Makes the keeper.
    ///
    /// # Errors
    /// Unless lazy: the server cannot be reached within its connect time-out, or refuses.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub async fn connect(self) -> Result<Keeper, Error> {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let store = match self.store {
            Chosen::Redis(config) if self.without_scripts => {
                Chosen::Redis(Box::new(config.without_scripts()))
            }
            Chosen::Quorum(config) if self.without_scripts => {
                Chosen::Quorum(config.try_each(|node| Ok::<_, Error>(node.without_scripts()))?)
            }
            store => store,
        };
        let (backend, address) = store.open(&clock, self.lazy, self.response_timeout).await?;
        let response_timeout = match &backend {
            Backend::Redis(lanes) => lanes.on(Lane::Command).response_timeout(),
            Backend::Quorum(store) => store.response_timeout(),
            _ => self.response_timeout.unwrap_or(DEFAULT_RESPONSE_TIMEOUT),
        };
        let identity = Identity::new(&host_name(), std::process::id());
        let identity = identity.labelled(self.owner.as_deref().unwrap_or_default());
        let (name, queues) = (identity.keeper(rand::random()), Arc::<Queues>::default());
        let context = Context {
            backend: backend.clone(),
            clock: clock.clone(),
            response_timeout,
            queues: queues.clone(),
        };
        let inner = Inner {
            background: Background::start(context, self.place)?,
            backend,
            clock,
            prefix: self.prefix.map_or_else(|| Prefix::new(DEFAULT_PREFIX), Ok)?,
            limit_prefix: self.limit_prefix.map_or_else(|| Prefix::new(DEFAULT_LIMIT_PREFIX), Ok)?,
            once_prefix: self.once_prefix.map_or_else(|| Prefix::new(DEFAULT_ONCE_PREFIX), Ok)?,
            circuits: Circuits::default(),
            purses: Purses::default(),
            returned: Returned::default(),
            identity,
            name,
            queues,
            permits: Arc::default(),
            onces: Arc::default(),
            response_timeout,
            durability: self.durability,
            held_count: AtomicUsize::new(0),
            seen_fence: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            segments: Segments::default(),
            locals: Locals::default(),
            address,
        };
        telemetry::describe();
        Ok(Keeper { inner: Arc::new(inner) })
    }
}

impl Chosen {
    /// The store, and its address for people.
    async fn open(
        self,
        clock: &Arc<dyn Clock>,
        lazy: bool,
        response_timeout: Option<Duration>,
    ) -> Result<(Backend, String), Error> {
        let config = match self {
            Self::Memory => {
                return Ok((Backend::Memory(MemoryStore::new(clock.clone())), "memory://".to_owned()));
            }
            Self::Ready(backend) => {
                let name = backend.name().to_owned();
                return Ok((backend, name));
            }
            Self::Quorum(config) => {
                let config = match response_timeout {
                    Some(limit) => config.response_timeout(limit),
                    None => config,
                };
                let address = config.address();
                let store = match lazy {
                    true => QuorumStore::lazy(config, clock.clone())?,
                    false => QuorumStore::connect(config, clock.clone()).await?,
                };
                return Ok((Backend::Quorum(store), address));
            }
            Self::Redis(config) => match response_timeout {
                Some(limit) => config.response_timeout(limit),
                None => *config,
            },
        };
        let address = config.address();
        let store = match lazy {
            true => RedisStore::lazy(config, clock.clone()),
            false => RedisStore::connect(config, clock.clone()).await?,
        };
        Ok((Backend::Redis(Lanes::new(&store)), address))
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
