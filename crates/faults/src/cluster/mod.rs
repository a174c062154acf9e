//! A cluster of real servers, whose slots can be moved step by step and whose primaries can be failed over.

mod form;
mod slots;

use std::thread;
use std::time::{Duration, Instant};

pub use self::slots::SlotMove;
use crate::server::{RedisServer, Reply, ServerBuilder, ServerError, ServerKind};

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;
/// The longest wait for the cluster to be of one mind.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How often a node is started when its ports were taken by somebody else.
const START_ATTEMPTS: u32 = 10;
/// A node that is silent for so long is given up by the others.
const NODE_TIMEOUT_MS: &str = "1000";

/// The servers of a cluster, ended when this is dropped: the primaries first, then as many replicas or none.
///
/// A node that does not answer for a second is given up, and its replica takes over.
#[derive(Debug)]
pub struct ClusterServers {
    nodes: Vec<RedisServer>,
    ids: Vec<String>,
    primaries: usize,
}

impl ClusterServers {
    /// Three primaries with a replica each, all made by `builder`. Node `n + 3` replicates node `n`.
    ///
    /// # Errors
    /// A server does not start, or they are not of one mind within 30 seconds.
    pub fn start(builder: &ServerBuilder) -> Result<Self, ServerError> {
        form::form(builder, 3, 3)
    }

    /// Three primaries without replicas.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn minimal(builder: &ServerBuilder) -> Result<Self, ServerError> {
        form::form(builder, 3, 0)
    }

    /// All of them as seeds: `redis+cluster://127.0.0.1:7000,…`.
    pub fn url(&self) -> String {
        let places: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", places.join(","))
    }

    /// The servers.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The number of the node that keeps `slot`, by the map of the first one that answers.
    ///
    /// # Errors
    /// Nobody answers, or nobody keeps it.
    pub fn owner_of(&self, slot: u16) -> Result<usize, ServerError> {
        let unknown = || ServerError::Unresponsive { what: "say who keeps a slot" };
        let maps = self.nodes.iter().filter(|node| node.is_running());
        let map =
            maps.filter_map(|node| node.command(&["CLUSTER", "SLOTS"]).ok()).find(|map| !map.is_error());
        let map = map.ok_or_else(unknown)?;
        let id = map.as_array().and_then(|ranges| ranges.iter().find_map(|range| primary_of(range, slot)));
        self.number_of(id.ok_or_else(unknown)?).ok_or_else(unknown)
    }

    /// The server that keeps `slot`.
    ///
    /// # Errors
    /// As [`owner_of`](Self::owner_of).
    pub fn node_of(&self, slot: u16) -> Result<&RedisServer, ServerError> {
        self.owner_of(slot).map(|number| &self.nodes[number])
    }

    /// Has a replica take over from its primary, which stays as its replica. Waits until it has.
    ///
    /// # Errors
    /// It is no replica, or has not taken over within 30 seconds.
    pub fn fail_over_to(&self, replica: usize) -> Result<(), ServerError> {
        self.ask(replica, &["CLUSTER", "FAILOVER"])?;
        self.wait_primary(replica)
    }

    /// Waits until this node is a primary, and every node that runs says so.
    ///
    /// # Errors
    /// It is not within 30 seconds.
    pub fn wait_primary(&self, number: usize) -> Result<(), ServerError> {
        let id = &self.ids[number];
        let is_so = |list: &str| list.lines().any(|line| line.starts_with(id) && line.contains("master"));
        until("take over", || {
            let mut running = self.nodes.iter().filter(|node| node.is_running());
            let says =
                |node| ask(node, &["CLUSTER", "NODES"]).is_ok_and(|list| list.as_str().is_some_and(is_so));
            Ok(running.all(says))
        })
    }

    /// Waits until every node that runs says that the cluster serves all slots.
    ///
    /// # Errors
    /// Not within 30 seconds.
    pub fn wait_ok(&self) -> Result<(), ServerError> {
        until("form a cluster", || {
            let mut running = self.nodes.iter().filter(|node| node.is_running());
            Ok(running
                .all(|node| form::cluster_info(node).is_ok_and(|info| info.contains("cluster_state:ok"))))
        })
    }

    /// Begins to move `slot` to node `to`: from now on keys that are not there are asked for at their new place.
    ///
    /// # Errors
    /// A node refuses, or `to` keeps it already.
    pub fn begin_move(&self, slot: u16, to: usize) -> Result<SlotMove<'_>, ServerError> {
        SlotMove::begin(self, slot, to)
    }

    /// Moves `slot` with its keys to node `to`.
    ///
    /// # Errors
    /// As [`begin_move`](Self::begin_move).
    pub fn move_slot(&self, slot: u16, to: usize) -> Result<(), ServerError> {
        self.begin_move(slot, to)?.finish()
    }

    /// The server's words when it refuses are the error.
    fn ask(&self, number: usize, words: &[&str]) -> Result<Reply, ServerError> {
        ask(&self.nodes[number], words)
    }

    fn number_of(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|known| known == id)
    }
}

fn ask(node: &RedisServer, words: &[&str]) -> Result<Reply, ServerError> {
    match node.command(words)? {
        Reply::Error(text) => Err(ServerError::Protocol(text)),
        reply => Ok(reply),
    }
}

/// The id of the primary in an entry of `CLUSTER SLOTS`, if that has the slot.
fn primary_of(range: &Reply, slot: u16) -> Option<&str> {
    let [first, last, primary, ..] = range.as_array()? else { return None };
    let is_there = first.as_int()? <= i64::from(slot) && i64::from(slot) <= last.as_int()?;
    if is_there { primary.as_array()?.get(2)?.as_str() } else { None }
}

fn until(what: &'static str, mut look: impl FnMut() -> Result<bool, ServerError>) -> Result<(), ServerError> {
    let deadline = Instant::now() + PATIENCE;
    while !look()? {
        if Instant::now() >= deadline {
            return Err(ServerError::Unresponsive { what });
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// The port of the cluster bus; old servers always use their own plus 10,000.
fn has_bus_port(kind: ServerKind) -> bool {
    kind != ServerKind::Redis62
}
