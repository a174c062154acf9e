//! The Redis store: which server a decision goes to.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::{Durability, Lasting, Leasing};
use lockkeeper_core::{Answer, Apply, Clock, Error, Keys, Timestamp};
use parking_lot::Mutex;
use redis::{Cmd, FromRedisValue};
use tokio::sync::watch;

use crate::attempt::{Attempt, Way};
use crate::clock::ServerClock;
use crate::config::RedisConfig;
use crate::connect::{Connector, LeadsTo};
use crate::lasting;
use crate::link::Link;
use crate::node::{Lane, Node};
use crate::port::Port;
use crate::probe::ServerInfo;
use crate::redis1::Adopted;
use crate::sentinel::{self, Lookout, SentinelView};
use crate::url::Places;
use crate::wake::{Watched, Watcher};

/// A store on Redis or Valkey. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
    lane: Lane,
}

/// Tells when another server has become the primary.
pub struct Terms(sentinel::Terms);

impl Terms {
    /// Waits for the next time.
    ///
    /// # Cancel safety
    /// Yes: a change that nobody took is kept.
    pub async fn changed(&mut self) {
        self.0.changed().await;
    }
}

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Terms")
    }
}

#[derive(Debug)]
struct Shared {
    node: Node,
    response_timeout: Duration,
}

impl RedisStore {
    /// A store that connects when it is first used. Must be used inside a Tokio runtime.
    pub fn lazy(config: RedisConfig, clock: Arc<dyn Clock>) -> Self {
        let response_timeout = config.response_timeout;
        let clock = Arc::new(ServerClock::new(clock));
        let (watched, connected) = (Arc::<Watched>::default(), Mutex::default());
        let leads_to = match config.target.places.clone() {
            Places::One(address) => LeadsTo::At(address),
            Places::Sentinel(sentinels) => {
                LeadsTo::Primary(Lookout::new(&config, sentinels, watched.clone(), clock.clone()))
            }
            Places::Cluster(_) => unreachable!("refused by the configuration"),
        };
        let node = Node::new(Arc::new(Connector { config, leads_to, clock, watched, connected }));
        Self { shared: Arc::new(Shared { node, response_timeout }), lane: Lane::Command }
    }

    /// A store whose command connection stands.
    ///
    /// # Errors
    /// Unreachable, or refused (credentials).
    pub async fn connect(config: RedisConfig, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let limit = config.connect_timeout;
        let store = Self::lazy(config, clock);
        let up = store.link().up(limit.saturating_add(Duration::from_millis(100))).await;
        up.map_err(|failure| failure.into_error("connect"))?;
        Ok(store)
    }

    pub(crate) fn adopted(connection: Adopted, response_timeout: Duration) -> Self {
        let node = Node::adopted(connection);
        Self { shared: Arc::new(Shared { node, response_timeout }), lane: Lane::Command }
    }

    /// The same store, sending on another of its connections.
    #[must_use]
    pub fn on(&self, lane: Lane) -> Self {
        Self { shared: self.shared.clone(), lane }
    }

    /// The limit for one command.
    pub fn response_timeout(&self) -> Duration {
        self.shared.response_timeout
    }

    /// The servers' time now, as far as is known.
    pub fn server_now(&self) -> Timestamp {
        self.node().clock().now()
    }

    /// The time now of the server that keeps `at`, as far as is known.
    pub fn server_now_at(&self, _at: &Keys) -> Timestamp {
        self.node().clock().now()
    }

    /// By how much the server's clock is ahead of this machine's, in microseconds.
    pub fn server_ahead_us(&self) -> i64 {
        self.node().clock().ahead_of_wall_us()
    }

    /// What the command connection's probe found; connects if need be.
    ///
    /// # Errors
    /// Unreachable.
    pub async fn server_info(&self, within: Duration) -> Result<Arc<ServerInfo>, Error> {
        self.link()
            .up(within)
            .await
            .map(|up| up.info().clone())
            .map_err(|failure| failure.into_error("probe"))
    }

    /// Changes when this lane's connection was replaced. `None` for a lent connection.
    pub fn reconnections(&self) -> Option<watch::Receiver<u64>> {
        self.link().generations()
    }

    /// Changes when another server has become the primary for `at`, as far as is known. Always 0 where nobody says which
    /// server that is.
    pub fn term(&self, _at: &Keys) -> u64 {
        self.node().term()
    }

    /// Tells when a term has changed. `None` where none ever does.
    pub fn terms(&self) -> Option<Terms> {
        self.node().lookout().map(|lookout| Terms(lookout.terms()))
    }

    /// Asks each Sentinel of the URL, all at once, on connections made for this. `None` without Sentinels.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    ///
    /// # Redis
    /// `SENTINEL MASTER`, `GET-MASTER-ADDR-BY-NAME`, `CKQUORUM` on every Sentinel; at most about two seconds.
    pub async fn sentinels(&self) -> Option<Vec<SentinelView>> {
        match self.node().lookout() {
            Some(lookout) => Some(lookout.survey().await),
            None => None,
        }
    }

    /// Is told of every change of `keys` after a [`Watch`](lockkeeper_core::lock::Watch) on the waiting connection
    /// answered *busy*, as long as that connection [hears](Self::hears_changes). `None` for a lent connection.
    pub fn watcher(&self, keys: &Keys) -> Option<Watcher> {
        self.node().watched().map(|watched| watched.watch(keys))
    }

    /// The waiting connection to the server of `at` stands, and the server tells it of changed keys.
    pub fn hears_changes(&self, _at: &Keys) -> bool {
        self.node().link(Lane::Waiting).hears()
    }

    /// The server refused once to tell of changed keys.
    pub fn may_not_hear(&self) -> bool {
        self.node().watched().is_none_or(|watched| watched.was_refused())
    }

    /// This lane has a connection at the moment, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.link().is_up()
    }

    /// This lane's connection leads to a cluster, as far as is known.
    pub fn is_cluster(&self) -> bool {
        self.link().info().is_some_and(|info| info.mode == "cluster")
    }

    /// The policy by which the server removes records to make room, as far as is known; see [`ServerInfo::evicts`].
    pub fn evicts(&self) -> Option<String> {
        self.link().info().and_then(|info| info.evicts.clone())
    }

    /// Asks for the server's time: finds out whether this lane's connection still answers. One `TIME`.
    ///
    /// # Errors
    /// As for any command.
    pub async fn heartbeat(&self, within: Duration) -> Result<Timestamp, Error> {
        self.node().heartbeat(self.lane, within).await
    }

    /// Runs one plain command that takes nothing, for look-ups and diagnosis.
    ///
    /// # Errors
    /// Unreachable, refused, or no answer in time.
    pub async fn query<T: FromRedisValue>(&self, command: &[&str], within: Duration) -> Result<T, Error> {
        let mut whole = Cmd::new();
        whole.arg(command);
        self.ask("query", &whole, within).await
    }

    /// Applies a decision, and waits until `level` is met. What was decided has been applied on the primary, met or not: who
    /// calls it gives back what may not stay.
    ///
    /// # Redis
    /// The script (`EVAL`) and `WAIT` or `WAITAOF` behind it, in one round trip, on a connection that is held for
    /// this step alone: at most four at once, two for renewals and two on the waiting lane. For all replicas: the script and
    /// `ROLE`, then `WAIT`. A new connection tries these commands once.
    ///
    /// # Errors
    /// As for any decision. *Not supported here*, before anything was taken: the server or the user has no such
    /// command, or the connection was lent. *Unreachable*: no connection became free.
    ///
    /// # Cancel safety
    /// As for any decision. The connection is given up.
    pub async fn apply_lasting<D: Port + Leasing>(
        &self,
        at: &Keys,
        decision: D,
        level: Durability,
        within: Duration,
    ) -> Result<Lasting<D::Reply>, Error> {
        if level.is_accepted() {
            return self.apply(at, decision, within).await.map(Lasting::met);
        }
        let ends = self.node().clock().uptime().after(within);
        lasting::apply(self.node(), self.lane, at, decision, level, ends).await
    }

    /// The server of `at` can be asked for `level`, as far as that is known before something is written.
    ///
    /// # Errors
    /// *Not supported here*; unreachable.
    pub async fn check_lasting(&self, at: &Keys, level: Durability, within: Duration) -> Result<(), Error> {
        if level.is_accepted() {
            return Ok(());
        }
        let ends = self.node().clock().uptime().after(within);
        lasting::check(self.node(), self.lane, level, ends).await.map_err(|error| error.with_key(at))
    }

    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        operation: &'static str,
        command: &Cmd,
        within: Duration,
    ) -> Result<T, Error> {
        self.node().ask(self.lane, operation, command, within).await
    }

    fn node(&self) -> &Node {
        &self.shared.node
    }

    fn link(&self) -> &Link {
        self.node().link(self.lane)
    }
}

impl<D: Port> Apply<D> for RedisStore {
    async fn apply(&self, at: &Keys, decision: D, within: Duration) -> Result<Answer<D::Reply>, Error> {
        let ends = self.node().clock().uptime().after(within);
        Attempt::new(self.node(), Way::Lane(self.lane), at, decision, ends).run().await
    }
}
