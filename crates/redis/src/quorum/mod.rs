//! A majority of independent servers, behind the same seam as one.
//!
//! Every decision goes to all servers that vote at the same time, and is decided as soon as a majority agrees. What
//! comes later is a further vote while the lock is held, and is given back once it is not.

mod back;
mod config;
mod fence;
mod home;
mod keep;
mod ledger;
mod look;
mod release;
mod roll;
mod status;
mod take;
mod tender;
mod views;
mod votes;
mod watcher;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::lock::quorum::{Majority, Membership, Rule};
use lockkeeper_core::lock::{Lease, OwnerToken};
use lockkeeper_core::{Answer, Clock, Error, ErrorKind, Timestamp, Uptime};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

pub use self::config::QuorumConfig;
use self::home::Home;
use self::ledger::Ledger;
pub use self::look::QuorumCursor;
use self::roll::{Found, Roll, refuse_twins};
pub use self::roll::{NodeReport, NodeStanding};
use self::tender::Tender;
use self::views::Views;
pub use self::watcher::QuorumWatcher;
use crate::node::Lane;
use crate::store::RedisStore;

/// The shortest limit for one server's answer to what is taken.
const MIN_NODE_LIMIT: Duration = Duration::from_millis(25);
/// After so long without use the servers are looked at no more, until somebody wants them.
const IDLE: Duration = Duration::from_secs(10);
/// So long connecting waits for the other servers, once a majority was reached.
const OTHERS: Duration = Duration::from_millis(100);

/// Locks on a majority of independent servers. Cheap to clone; clones share the connections.
///
/// It keeps locks, and nothing that counts or records: a majority of servers that do not know of each other has no single
/// place where a count would be right.
#[derive(Clone, Debug)]
pub struct QuorumStore {
    shared: Arc<Shared>,
    lane: Lane,
}

#[derive(Debug)]
struct Shared {
    nodes: Vec<Node>,
    majority: Majority,
    rule: Rule,
    /// Guards have fences.
    fences: bool,
    clock: Arc<dyn Clock>,
    response_timeout: Duration,
    connect_limit: Duration,
    found: Mutex<Vec<Found>>,
    roll: Mutex<Arc<Roll>>,
    roll_changed: watch::Sender<u64>,
    ledger: Ledger,
    views: Views,
    /// Tokens that are being given back, each at one server.
    giving_back: watch::Sender<usize>,
    last_used: AtomicU64,
    wanted: Arc<Notify>,
    home: Home,
}

/// One server: its three lanes.
#[derive(Debug)]
struct Node {
    lanes: [RedisStore; 3],
    is_tended: AtomicBool,
}

impl Node {
    fn on(&self, lane: Lane) -> &RedisStore {
        let [command, renewal, waiting] = &self.lanes;
        match lane {
            Lane::Command => command,
            Lane::Renewal => renewal,
            Lane::Waiting => waiting,
        }
    }
}

impl QuorumStore {
    /// A store that connects when it is first used. Must be used inside a Tokio runtime.
    pub fn lazy(config: QuorumConfig, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        config.demand_scripts()?;
        let majority = Majority::of(config.nodes.len())?;
        let found: Vec<_> = config.nodes.iter().map(|node| Found::new(node.place())).collect();
        let limit =
            |of: fn(&crate::RedisConfig) -> Duration| config.nodes.iter().map(of).max().unwrap_or_default();
        let response_timeout = limit(|node| node.response_timeout);
        let connect_limit = limit(|node| node.connect_timeout).saturating_add(Duration::from_millis(100));
        let of = match &config.name {
            Some(name) => Membership::named(name),
            None => Membership::of_servers(config.nodes.iter().map(crate::RedisConfig::place)),
        };
        let (nodes, max_lease, persistent) = (config.nodes.len(), config.max_lease, config.persistent);
        let rule = Rule { max_lease, nodes, persistent, of };
        let nodes = config.nodes.into_iter().map(|node| {
            let store = RedisStore::lazy(node, clock.clone());
            let lanes = [Lane::Command, Lane::Renewal, Lane::Waiting].map(|lane| store.on(lane));
            Node { lanes, is_tended: AtomicBool::new(false) }
        });
        let shared = Shared {
            nodes: nodes.collect(),
            majority,
            rule,
            fences: config.fences,
            clock,
            response_timeout,
            connect_limit,
            roll: Mutex::new(Arc::new(Roll::of(&found))),
            found: Mutex::new(found),
            roll_changed: watch::Sender::new(0),
            ledger: Ledger::default(),
            views: Views::default(),
            giving_back: watch::Sender::new(0),
            last_used: AtomicU64::new(0),
            wanted: Arc::default(),
            home: Home::default(),
        };
        Ok(Self { shared: Arc::new(shared), lane: Lane::Command })
    }

    /// A store of which a majority of the servers has been reached. They need not vote yet. A server that was demoted, or has
    /// another majority's marker, does not vote; it is logged once.
    ///
    /// # Errors
    /// Fewer can be reached; so many are refused that the others are no majority; one is a member of a cluster, a Sentinel,
    /// or another one's second name.
    pub async fn connect(config: QuorumConfig, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let store = Self::lazy(config, clock)?;
        store.shared.reach_majority().await?;
        Ok(store)
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

    /// The longest lease that may be taken.
    pub fn max_lease(&self) -> Duration {
        self.shared.rule.max_lease
    }

    /// Whoever configured it says that every server keeps every write.
    pub fn is_persistent(&self) -> bool {
        self.shared.rule.persistent
    }

    /// Guards have fences.
    pub fn has_fences(&self) -> bool {
        self.shared.fences
    }

    /// Tokens that are being given back at a server.
    pub fn giving_back(&self) -> usize {
        *self.shared.giving_back.borrow()
    }

    /// Waits until nothing is being given back.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn given_back(&self) {
        let mut changes = self.shared.giving_back.subscribe();
        let _ = changes.wait_for(|count| *count == 0).await;
    }
}

impl Shared {
    fn node(&self, node: usize) -> Option<&Node> {
        self.nodes.get(node)
    }

    /// An answer at this moment, on the timeline that answers of a majority are compared on: this machine's uptime. The
    /// servers' own clocks are compared server by server, in here.
    fn answer<R>(&self, reply: R) -> Answer<R> {
        Answer { reply, at: Timestamp::from_micros(self.clock.uptime().as_micros()), sent: 1 }
    }

    fn is_idle(&self) -> bool {
        let last = Uptime::from_micros(self.last_used.load(Ordering::Relaxed));
        self.clock.uptime().since(last) > IDLE
    }

    /// Somebody uses it: its servers are looked after.
    fn touch(self: &Arc<Self>) {
        let was_idle = self.is_idle();
        self.last_used.store(self.clock.uptime().as_micros(), Ordering::Relaxed);
        for (at, node) in self.nodes.iter().enumerate() {
            if !node.is_tended.load(Ordering::Acquire) && !node.is_tended.swap(true, Ordering::AcqRel) {
                let tender = Tender { shared: Arc::downgrade(self), node: at };
                self.home.spawn(tender.run());
                self.warm(node);
            }
        }
        if was_idle {
            self.wanted.notify_waiters();
        }
    }

    /// Connects what takes, on the caller's runtime: no change of thread per call.
    fn warm(&self, node: &Node) {
        let (store, limit) = (node.on(Lane::Command).clone(), self.connect_limit);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Ok(link) = store.link() {
                    // Who needs it is told what went wrong.
                    let _ = link.up(limit).await;
                }
            });
        }
    }

    /// Changes what is known of a server, and who votes with it.
    fn change_roll(&self, node: usize, what: impl FnOnce(&mut Found)) -> NodeStanding {
        let mut found = self.found.lock();
        let Some(one) = found.get_mut(node) else { return NodeStanding::Unknown };
        let before = one.standing.clone();
        what(one);
        refuse_twins(&mut found);
        let standing = found.get(node).map_or(NodeStanding::Unknown, |one| one.standing.clone());
        let roll = Roll::of(&found);
        let address = found.get(node).map(|one| one.address.clone()).unwrap_or_default();
        *self.roll.lock() = Arc::new(roll);
        drop(found);
        if std::mem::discriminant(&before) != std::mem::discriminant(&standing) {
            tracing::info!(%address, %standing, "a server of the majority");
        }
        self.roll_changed.send_modify(|number| *number += 1);
        standing
    }

    /// Who votes, as soon as a majority does.
    ///
    /// Waits for servers that were not asked yet, and for nothing else: whoever is refused may try again.
    async fn voters(self: &Arc<Self>, operation: &'static str, within: Duration) -> Result<Arc<Roll>, Error> {
        self.touch();
        let roll = self.roll.lock().clone();
        if self.majority.is_reached(roll.votes) {
            return Ok(roll);
        }
        let mut changes = self.roll_changed.subscribe();
        let wait = async {
            loop {
                let roll = self.roll.lock().clone();
                if self.majority.is_reached(roll.votes)
                    || roll.is_complete
                    || changes.changed().await.is_err()
                {
                    return roll;
                }
            }
        };
        let roll = match timeout(within, wait).await {
            Ok(roll) => roll,
            Err(_) => self.roll.lock().clone(),
        };
        match self.majority.is_reached(roll.votes) {
            true => Ok(roll),
            false => Err(roll.too_few(self.majority, operation)),
        }
    }

    async fn reach_majority(self: &Arc<Self>) -> Result<(), Error> {
        self.touch();
        let mut changes = self.roll_changed.subscribe();
        let reached = |found: &[Found]| {
            let there =
                |one: &&Found| matches!(one.standing, NodeStanding::Votes | NodeStanding::Abstains(_));
            found.iter().filter(there).count()
        };
        let limit = self.connect_limit;
        let mut reaching = changes.clone();
        let wait = async {
            loop {
                let is_enough = self.majority.is_reached(reached(&self.found.lock()));
                if is_enough || self.roll.lock().is_complete || reaching.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(limit, wait).await;
        // A little more for the others, so that a wrong configuration is told at once.
        let all = async { while !self.roll.lock().is_complete && changes.changed().await.is_ok() {} };
        let _ = timeout(OTHERS, all).await;
        let roll = self.roll.lock().clone();
        roll.check("connect")?;
        if self.majority.is_reached(reached(&self.found.lock())) {
            for server in roll.refused() {
                tracing::warn!(%server, "a server of the majority does not vote");
            }
            return Ok(());
        }
        Err(roll.too_few(self.majority, "connect"))
    }

    /// How long one server has for what is taken: far below the lease.
    fn node_limit(&self, lease: Lease, within: Duration) -> Duration {
        (lease.as_duration() / 10)
            .clamp(MIN_NODE_LIMIT, self.response_timeout.max(MIN_NODE_LIMIT))
            .min(within)
    }

    fn check_lease(&self, lease: Lease, operation: &'static str) -> Result<(), Error> {
        if lease.as_duration() <= self.rule.max_lease {
            return Ok(());
        }
        let longest = self.rule.max_lease;
        let detail = format!("a lease of {lease} is longer than the majority's max_lease of {longest:?}");
        Err(Error::bad_argument(operation, detail))
    }

    fn check_token(&self, token: &OwnerToken, operation: &'static str) -> Result<(), Error> {
        if !self.ledger.is_leaving(token) {
            return Ok(());
        }
        let detail = "an earlier request with this token is still being given back";
        Err(Error::new(ErrorKind::OutcomeUnknown { not_after: None }, operation, detail))
    }
}
