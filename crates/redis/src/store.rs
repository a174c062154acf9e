//! The Redis store: which server a decision goes to.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Answer, Apply, Clock, Error, Keys, Timestamp};
use parking_lot::Mutex;
use redis::{Cmd, FromRedisValue};
use tokio::sync::watch;

use crate::attempt::Attempt;
use crate::clock::ServerClock;
use crate::config::RedisConfig;
use crate::connect::Connector;
use crate::link::Link;
use crate::node::{Lane, Node};
use crate::port::Port;
use crate::probe::ServerInfo;
use crate::redis1::Adopted;
use crate::url::Places;
use crate::wake::Watcher;

/// A store on Redis or Valkey. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
    lane: Lane,
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
        let address = match config.target.places.clone() {
            Places::One(address) => address,
            Places::Sentinel(_) | Places::Cluster(_) => unreachable!("refused by the configuration"),
        };
        let clock = ServerClock::new(clock);
        let (watched, connected) = (Arc::default(), Mutex::default());
        let node = Node::new(Arc::new(Connector { config, address, clock, watched, connected }));
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

    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        operation: &'static str,
        command: &Cmd,
        within: Duration,
    ) -> Result<T, Error> {
        self.node().ask(self.lane, operation, command, within).await
    }

    /// As `apply`, but only on connections to this run of the server: else *not applied*.
    pub(crate) async fn apply_of_run<D: Port>(
        &self,
        at: &Keys,
        decision: D,
        within: Duration,
        run_id: &str,
    ) -> Result<Answer<D::Reply>, Error> {
        let ends = self.node().clock().uptime().after(within);
        Attempt::new(self.node(), self.lane, at, decision, ends).of_run(run_id).run().await
    }

    pub(crate) fn node(&self) -> &Node {
        &self.shared.node
    }

    pub(crate) fn link(&self) -> &Link {
        self.node().link(self.lane)
    }
}

impl<D: Port> Apply<D> for RedisStore {
    async fn apply(&self, at: &Keys, decision: D, within: Duration) -> Result<Answer<D::Reply>, Error> {
        let ends = self.node().clock().uptime().after(within);
        Attempt::new(self.node(), self.lane, at, decision, ends).run().await
    }
}
