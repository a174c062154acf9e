//! The Redis store: which server a decision goes to.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::{Durability, Lasting, Leasing};
use lockkeeper_core::{Answer, Apply, Clock, Error, ErrorKind, Keys, Timestamp};
use parking_lot::Mutex;
use redis::{Cmd, FromRedisValue};
use tokio::sync::watch;

use crate::attempt::Attempt;
use crate::clock::ServerClock;
use crate::cluster::{Cluster, Look, one_slot};
use crate::config::RedisConfig;
use crate::connect::{Connector, LeadsTo};
use crate::error::Failure;
use crate::lasting;
use crate::layout::slot_of;
use crate::link::Link;
use crate::node::{Lane, Node};
use crate::port::Port;
use crate::probe::ServerInfo;
use crate::redis1::Adopted;
use crate::sentinel::{self, Lookout, SentinelView};
use crate::url::Places;
use crate::wake::{Watched, Watcher};

/// What connecting may take beyond its own limit.
const CONNECT_MARGIN: Duration = Duration::from_millis(100);

/// A store on Redis or Valkey. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
    lane: Lane,
}

/// Tells when another server has become the primary, on a cluster of some slots.
pub struct Terms(Source);

/// Who says so.
enum Source {
    Sentinels(sentinel::Terms),
    Cluster(watch::Receiver<u64>),
}

impl Terms {
    /// Waits for the next time.
    ///
    /// # Cancel safety
    /// Yes: a change that nobody took is kept.
    pub async fn changed(&mut self) {
        match &mut self.0 {
            Source::Sentinels(terms) => terms.changed().await,
            Source::Cluster(begun) => {
                if begun.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Terms")
    }
}

#[derive(Debug)]
struct Shared {
    topology: Topology,
    response_timeout: Duration,
}

/// Which servers there are.
#[derive(Debug)]
enum Topology {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

impl Topology {
    /// One place, whichever server is there.
    fn place(config: RedisConfig, leads_to: LeadsTo, clock: Arc<ServerClock>, watched: Arc<Watched>) -> Self {
        let connected = Mutex::default();
        let connector =
            Connector { config, leads_to, clock, watched, connected, deaf: Arc::default(), replaced: None };
        Self::One(Arc::new(Node::new(Arc::new(connector))))
    }
}

impl RedisStore {
    /// A store that connects when it is first used. Must be used inside a Tokio runtime.
    pub fn lazy(config: RedisConfig, clock: Arc<dyn Clock>) -> Self {
        let response_timeout = config.response_timeout;
        let topology = match config.target.places.clone() {
            Places::One(address) => {
                let clock = Arc::new(ServerClock::new(clock));
                Topology::place(config, LeadsTo::At(address), clock, Arc::default())
            }
            Places::Sentinel(sentinels) => {
                let (clock, watched) = (Arc::new(ServerClock::new(clock)), Arc::<Watched>::default());
                let lookout = Lookout::new(&config, sentinels, watched.clone(), clock.clone());
                Topology::place(config, LeadsTo::Primary(lookout), clock, watched)
            }
            Places::Cluster(seeds) => Topology::Cluster(Cluster::new(config, seeds, clock)),
        };
        Self::of(topology, response_timeout)
    }

    fn of(topology: Topology, response_timeout: Duration) -> Self {
        Self { shared: Arc::new(Shared { topology, response_timeout }), lane: Lane::Command }
    }

    /// A store whose command connection stands: on a cluster, to one of its servers, and its map is known.
    ///
    /// # Errors
    /// Unreachable, or refused (credentials); the seeds of a cluster are no cluster.
    pub async fn connect(config: RedisConfig, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let limit = config.connect_timeout.saturating_add(CONNECT_MARGIN);
        let store = Self::lazy(config, clock);
        let up = match &store.shared.topology {
            Topology::One(node) => node.link(Lane::Command).up(limit).await.map(drop),
            Topology::Cluster(cluster) => cluster.look(0, Lane::Command, limit).await,
        };
        up.map_err(|failure| failure.into_error("connect"))?;
        Ok(store)
    }

    pub(crate) fn adopted(connection: Adopted, response_timeout: Duration) -> Self {
        Self::of(Topology::One(Arc::new(Node::adopted(connection))), response_timeout)
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

    /// The servers' time now, as far as is known; on a cluster, that of one of them.
    pub fn server_now(&self) -> Timestamp {
        match &self.shared.topology {
            Topology::One(node) => node.clock().now(),
            Topology::Cluster(cluster) => cluster.now(),
        }
    }

    /// The time now of the server that keeps `at`, as far as is known.
    pub fn server_now_at(&self, at: &Keys) -> Timestamp {
        match &self.shared.topology {
            Topology::One(node) => node.clock().now(),
            Topology::Cluster(cluster) => {
                cluster.node_of(at).map_or_else(|| cluster.now(), |node| node.clock().now())
            }
        }
    }

    /// By how much the server's clock is ahead of this machine's, in microseconds; on a cluster, the one that is
    /// farthest off.
    pub fn server_ahead_us(&self) -> i64 {
        match &self.shared.topology {
            Topology::One(node) => node.clock().ahead_of_wall_us(),
            Topology::Cluster(cluster) => cluster.farthest_ahead_us(),
        }
    }

    /// What the command connection's probe found; connects if need be. On a cluster, to one of its servers.
    ///
    /// # Errors
    /// Unreachable.
    pub async fn server_info(&self, within: Duration) -> Result<Arc<ServerInfo>, Error> {
        let info = async {
            let node = match &self.shared.topology {
                Topology::One(node) => node.clone(),
                Topology::Cluster(cluster) => cluster.home(None, self.lane, within).await?,
            };
            node.link(self.lane).up(within).await.map(|up| up.info().clone())
        };
        info.await.map_err(|failure| failure.into_error("probe"))
    }

    /// Changes when this lane's connection was replaced; on a cluster, when any connection for commands or renewals was.
    /// `None` for a lent connection.
    pub fn reconnections(&self) -> Option<watch::Receiver<u64>> {
        match &self.shared.topology {
            Topology::One(node) => node.link(self.lane).generations(),
            Topology::Cluster(cluster) => Some(cluster.changes()),
        }
    }

    /// Changes when another server has become the primary for `at`, as far as is known. Always 0 where nobody says which
    /// server that is.
    pub fn term(&self, at: &Keys) -> u64 {
        match &self.shared.topology {
            Topology::One(node) => node.term(),
            Topology::Cluster(cluster) => cluster.term(at),
        }
    }

    /// Tells when a term has changed, whichever. `None` where there is one server and no Sentinel.
    pub fn terms(&self) -> Option<Terms> {
        let source = match &self.shared.topology {
            Topology::One(node) => Source::Sentinels(node.lookout()?.terms()),
            Topology::Cluster(cluster) => Source::Cluster(cluster.terms()),
        };
        Some(Terms(source))
    }

    fn lookout(&self) -> Option<&Lookout> {
        match &self.shared.topology {
            Topology::One(node) => node.lookout(),
            Topology::Cluster(_) => None,
        }
    }

    /// Asks each Sentinel of the URL, all at once, on connections made for this. `None` without Sentinels.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    ///
    /// # Redis
    /// `SENTINEL MASTER`, `GET-MASTER-ADDR-BY-NAME`, `CKQUORUM` and `SUBSCRIBE` on every Sentinel; at most about four seconds.
    pub async fn sentinels(&self) -> Option<Vec<SentinelView>> {
        match self.lookout() {
            Some(lookout) => Some(lookout.survey().await),
            None => None,
        }
    }

    /// Is told of every change of `keys` after a [`Watch`](lockkeeper_core::lock::Watch) on the waiting connection
    /// answered *busy*, as long as that connection [hears](Self::hears_changes). `None` for a lent connection.
    pub fn watcher(&self, keys: &Keys) -> Option<Watcher> {
        self.watched().map(|watched| watched.watch(keys))
    }

    fn watched(&self) -> Option<&Arc<Watched>> {
        match &self.shared.topology {
            Topology::One(node) => node.watched(),
            Topology::Cluster(cluster) => Some(cluster.watched()),
        }
    }

    /// The waiting connection to the server of `at` stands, and the server tells it of changed keys.
    pub fn hears_changes(&self, at: &Keys) -> bool {
        match &self.shared.topology {
            Topology::One(node) => node.link(Lane::Waiting).hears(),
            Topology::Cluster(cluster) => {
                cluster.node_of(at).is_some_and(|node| node.link(Lane::Waiting).hears())
            }
        }
    }

    /// A server refused once to tell of changed keys.
    pub fn may_not_hear(&self) -> bool {
        self.watched().is_none_or(|watched| watched.was_refused())
    }

    /// This lane has a connection at the moment, as far as is known; on a cluster, to one of its servers.
    pub fn is_connected(&self) -> bool {
        self.any_of(|node| node.link(self.lane).is_up().then_some(())).is_some()
    }

    /// This lane's connection leads to a cluster, as far as is known.
    pub fn is_cluster(&self) -> bool {
        match &self.shared.topology {
            Topology::One(node) => node.link(self.lane).info().is_some_and(|info| info.mode == "cluster"),
            Topology::Cluster(_) => true,
        }
    }

    /// The policy by which a server removes records to make room, as far as is known; see [`ServerInfo::evicts`].
    pub fn evicts(&self) -> Option<String> {
        self.any_of(|node| node.link(self.lane).info().and_then(|info| info.evicts.clone()))
    }

    /// What the first server has of which `find` says something.
    fn any_of<T>(&self, find: impl Fn(&Node) -> Option<T>) -> Option<T> {
        match &self.shared.topology {
            Topology::One(node) => find(node),
            Topology::Cluster(cluster) => cluster.primaries().iter().find_map(|(_, node)| find(node)),
        }
    }

    /// A number for the server of a cluster that keeps `at`. `None` where this store is one server, or while it is not
    /// known.
    pub fn server_of(&self, at: &Keys) -> Option<u16> {
        match &self.shared.topology {
            Topology::One(_) => None,
            Topology::Cluster(cluster) => cluster.number_of(at),
        }
    }

    /// Each server that keeps locks, by its address, as a store of its own, for looking at them one by one; `None`
    /// where this store is one server.
    ///
    /// # Errors
    /// No server of the cluster can be reached.
    pub async fn servers(&self, within: Duration) -> Result<Option<Vec<(String, Self)>>, Error> {
        let Topology::Cluster(cluster) = &self.shared.topology else { return Ok(None) };
        cluster.home(None, self.lane, within).await.map_err(|failure| failure.into_error("servers"))?;
        let one = |node| Self::of(Topology::One(node), self.shared.response_timeout);
        Ok(Some(
            cluster.primaries().into_iter().map(|(address, node)| (address.to_string(), one(node))).collect(),
        ))
    }

    /// Asks for the server's time: finds out whether this lane's connection still answers. One `TIME`; on a cluster, one
    /// to each server that is used, by whatever lane or for steps that must last, side by side.
    ///
    /// # Errors
    /// As for any command.
    pub async fn heartbeat(&self, within: Duration) -> Result<Timestamp, Error> {
        match &self.shared.topology {
            Topology::One(node) => node.heartbeat(self.lane, within).await,
            Topology::Cluster(cluster) => cluster.heartbeat(self.lane, within).await,
        }
    }

    /// As [`heartbeat`](Self::heartbeat), of the server that keeps `at`.
    ///
    /// # Errors
    /// As for any command.
    pub async fn heartbeat_at(&self, at: &Keys, within: Duration) -> Result<Timestamp, Error> {
        match &self.shared.topology {
            Topology::One(node) => node.heartbeat(self.lane, within).await,
            Topology::Cluster(cluster) => cluster.heartbeat_at(at, self.lane, within).await,
        }
    }

    /// Runs one plain command that takes nothing, for look-ups and diagnosis. On a cluster any server gets it, and the
    /// one that keeps its key where it names one.
    ///
    /// # Errors
    /// Unreachable, refused, or no answer in time.
    pub async fn query<T: FromRedisValue>(&self, command: &[&str], within: Duration) -> Result<T, Error> {
        let mut whole = Cmd::new();
        whole.arg(command);
        self.ask(None, "query", &whole, within).await
    }

    /// Applies a decision, and waits until `level` is met. What was decided has been applied on the primary, met or not: who
    /// calls it gives back what may not stay.
    ///
    /// # Redis
    /// The script (`EVAL`) and `WAIT` or `WAITAOF` behind it, in one round trip, on a connection that is held for
    /// this step alone: for each server at most four at once, eight for renewals and two on the waiting lane. For all replicas: the script and
    /// `ROLE`, then `WAIT`. A new connection tries these commands once.
    ///
    /// # Errors
    /// As for any decision. *Not supported here*, before anything was taken: the server or the user has no such
    /// command, or the connection was lent. *Crowded*: no connection became free, and the server is there.
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
        match &self.shared.topology {
            Topology::One(node) => {
                let ends = node.clock().uptime().after(within);
                lasting::apply(node, self.lane, at, decision, level, ends).await
            }
            Topology::Cluster(cluster) => {
                let slot = one_slot(D::NAME, at).map_err(|error| error.with_key(at))?;
                let ends = cluster.uptime().after(within);
                let step = lasting::apply_on_cluster(cluster, slot, self.lane, at, decision, level, ends);
                Box::pin(step).await
            }
        }
    }

    /// The server of `at` can be asked for `level`, as far as that is known before something is written.
    ///
    /// # Errors
    /// *Not supported here*; unreachable.
    pub async fn check_lasting(&self, at: &Keys, level: Durability, within: Duration) -> Result<(), Error> {
        if level.is_accepted() {
            return Ok(());
        }
        let node = match &self.shared.topology {
            Topology::One(node) => node.clone(),
            Topology::Cluster(cluster) => {
                let slot = at.as_slice().first().map(|key| slot_of(key.as_bytes()));
                let home = cluster.home(slot, self.lane, within).await;
                home.map_err(|failure| failure.into_error("durability").with_key(at))?
            }
        };
        let ends = node.clock().uptime().after(within);
        lasting::check(&node, self.lane, level, ends).await.map_err(|error| error.with_key(at))
    }

    /// Asks the server of `key`, or any.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        key: Option<&[u8]>,
        operation: &'static str,
        command: &Cmd,
        within: Duration,
    ) -> Result<T, Error> {
        let cluster = match &self.shared.topology {
            Topology::One(node) => return node.ask(self.lane, operation, command, within).await,
            Topology::Cluster(cluster) => cluster,
        };
        let ends = cluster.uptime().after(within);
        let look = Look { lane: self.lane, operation, command, ends };
        let value = cluster.route(self.lane, key.map(slot_of), ends).run(look).await?;
        redis::from_redis_value(value)
            .map_err(|error| Error::new(ErrorKind::Protocol, operation, error.to_string()))
    }

    /// The server with which a listing goes on: the first whose number is at least `number`.
    pub(crate) async fn listed_from(
        &self,
        number: u16,
        within: Duration,
    ) -> Result<Option<(u16, Arc<Node>)>, Error> {
        match &self.shared.topology {
            Topology::One(node) => Ok((number == 0).then(|| (0, node.clone()))),
            Topology::Cluster(cluster) => cluster
                .primary_from(number, self.lane, within)
                .await
                .map_err(|failure| failure.into_error("list")),
        }
    }

    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// As `apply`, but only on connections to this run of the one server: else *not applied*.
    pub(crate) async fn apply_of_run<D: Port>(
        &self,
        at: &Keys,
        decision: D,
        within: Duration,
        run_id: &str,
    ) -> Result<Answer<D::Reply>, Error> {
        let node = self.one(D::NAME)?;
        let ends = node.clock().uptime().after(within);
        let attempt = Attempt::new(self.lane, at, decision, ends).of_run(run_id);
        attempt.run(node).await
    }

    /// The one server.
    ///
    /// # Errors
    /// It is a cluster.
    pub(crate) fn one(&self, operation: &'static str) -> Result<&Node, Error> {
        match &self.shared.topology {
            Topology::One(node) => Ok(node),
            Topology::Cluster(_) => {
                Err(Error::new(ErrorKind::Unsupported, operation, "a cluster is not one server"))
            }
        }
    }

    /// This lane's connection to the one server.
    pub(crate) fn link(&self) -> Result<&Link, Failure> {
        let node = self
            .one("connect")
            .map_err(|error| Failure { kind: error.kind(), detail: error.detail().to_owned() })?;
        Ok(node.link(self.lane))
    }
}

impl<D: Port> Apply<D> for RedisStore {
    async fn apply(&self, at: &Keys, decision: D, within: Duration) -> Result<Answer<D::Reply>, Error> {
        match &self.shared.topology {
            Topology::One(node) => {
                let ends = node.clock().uptime().after(within);
                Attempt::new(self.lane, at, decision, ends).run(node).await
            }
            Topology::Cluster(cluster) => {
                let slot = one_slot(D::NAME, at).map_err(|error| error.with_key(at))?;
                let ends = cluster.uptime().after(within);
                let attempt = Attempt::new(self.lane, at, decision, ends);
                // On the heap, so that it costs a single server nothing.
                Box::pin(cluster.route(self.lane, Some(slot), ends).run(attempt)).await
            }
        }
    }
}
