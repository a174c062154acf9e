//! A cluster: a server for each range of slots, found by asking any of them.
//!
//! Every server has a [`Node`] of its own, with its own connections and its own clock. The map says which keeps a slot.
//! It is corrected at once by what a server says of one slot (`MOVED`), and looked at anew after anything that may mean
//! a change, and now and then; one look at a time.

mod look;
mod map;
mod redirect;
mod route;
mod slots;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockkeeper_core::{Clock, Error, ErrorKind, Keys, Refusal, Timestamp, Uptime};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use self::look::Looked;
use self::map::{Map, News};
use self::redirect::Redirect;
pub(crate) use self::route::{Errand, Look, Manner, Route, Step};
use crate::clock::ServerClock;
use crate::config::RedisConfig;
use crate::connect::{Connector, LeadsTo, Replaced};
use crate::error::Failure;
use crate::layout::slot_of;
use crate::node::{Lane, Node};
use crate::url::Address;
use crate::wake::Watched;

/// A cluster.
pub(crate) struct Cluster {
    config: RedisConfig,
    seeds: Vec<Address>,
    local: Arc<dyn Clock>,
    watched: Arc<Watched>,
    map: RwLock<Map>,
    looked: Mutex<Looked>,
    /// Looks that have ended and count.
    looks: AtomicU64,
    /// Wakes who waits for the turn to look.
    turn_ended: Notify,
    /// Changes when a connection was replaced, unless it leads to the same run of the server. Counts as a link's connections do: the first is no change.
    changes: Arc<watch::Sender<u64>>,
    /// Changes when a term began.
    terms: watch::Sender<u64>,
}

impl Cluster {
    pub(crate) fn new(config: RedisConfig, seeds: Vec<Address>, local: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            config,
            seeds,
            local,
            watched: Arc::default(),
            map: RwLock::default(),
            looked: Mutex::default(),
            looks: AtomicU64::new(0),
            turn_ended: Notify::new(),
            changes: Arc::new(watch::Sender::new(1)),
            terms: watch::Sender::default(),
        })
    }

    pub(crate) fn uptime(&self) -> Uptime {
        self.local.uptime()
    }

    pub(crate) fn watched(&self) -> &Arc<Watched> {
        &self.watched
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn terms(&self) -> watch::Receiver<u64> {
        self.terms.subscribe()
    }

    /// An errand for the server of `slot`, or for any.
    pub(crate) fn route(self: &Arc<Self>, lane: Lane, slot: Option<u16>, ends: Uptime) -> Route<'_> {
        Route { cluster: self, lane, slot, ends }
    }

    /// The server of these keys, if it is known.
    pub(crate) fn node_of(&self, at: &Keys) -> Option<Arc<Node>> {
        let slot = slot_of(at.as_slice().first()?.as_bytes());
        self.map.read().owner(slot).cloned()
    }

    /// The number of the server of these keys, if it is known.
    pub(crate) fn number_of(&self, at: &Keys) -> Option<u16> {
        self.map.read().number(slot_of(at.as_slice().first()?.as_bytes()))
    }

    /// Changes when a replica took the slot of these keys over.
    pub(crate) fn term(&self, at: &Keys) -> u64 {
        at.as_slice().first().map_or(0, |key| self.map.read().term(slot_of(key.as_bytes())))
    }

    /// The time now of a server, as far as is known.
    pub(crate) fn now(&self) -> Timestamp {
        let map = self.map.read();
        let known = map.primaries().find(|(.., node)| node.clock().is_known());
        known.map_or_else(|| self.local.wall(), |(.., node)| node.clock().now())
    }

    /// The clock that is farthest off.
    pub(crate) fn farthest_ahead_us(&self) -> i64 {
        let map = self.map.read();
        let known = map.primaries().filter(|(.., node)| node.clock().is_known());
        known
            .map(|(.., node)| node.clock().ahead_of_wall_us())
            .max_by_key(|us| us.unsigned_abs())
            .unwrap_or(0)
    }

    /// Every server that keeps slots, as far as is known.
    pub(crate) fn primaries(&self) -> Vec<(Address, Arc<Node>)> {
        self.map.read().primaries().map(|(_, address, node)| (address.clone(), node.clone())).collect()
    }

    /// The server that a listing goes on with: the first whose number is at least `number`.
    pub(crate) async fn primary_from(
        self: &Arc<Self>,
        number: u16,
        lane: Lane,
        within: Duration,
    ) -> Result<Option<(u16, Arc<Node>)>, Failure> {
        self.find(lane, within, |map| map.primary_from(0).map(|_| map.primary_from(number))).await
    }

    /// The server of `slot`, or any; the map is looked at first if need be.
    pub(crate) async fn home(
        self: &Arc<Self>,
        slot: Option<u16>,
        lane: Lane,
        within: Duration,
    ) -> Result<Arc<Node>, Failure> {
        self.look_now_and_then(lane);
        self.find(lane, within, |map| match slot {
            Some(slot) => map.owner(slot).cloned(),
            None => any(map, lane),
        })
        .await
    }

    async fn find<T>(
        self: &Arc<Self>,
        lane: Lane,
        within: Duration,
        pick: impl Fn(&Map) -> Option<T>,
    ) -> Result<T, Failure> {
        let seen = self.looks.load(Ordering::Acquire);
        if let Some(found) = pick(&self.map.read()) {
            return Ok(found);
        }
        self.look(seen, lane, within).await?;
        pick(&self.map.read())
            .ok_or_else(|| down("CLUSTERDOWN no server keeps this slot, by the cluster's own map"))
    }

    /// What a server said of one slot.
    fn moved(&self, redirect: &Redirect, from: Option<&Arc<Node>>) -> Option<Arc<Node>> {
        let address = self.named(redirect, from)?;
        let news = self.map.write().move_slot(redirect.slot, &address, from, |at| self.node(at));
        self.tell(&news);
        self.map.read().at(&address).cloned()
    }

    fn tell(&self, news: &News) {
        if news.terms {
            self.terms.send_modify(|number| *number += 1);
        }
        if !news.owners.is_empty() {
            // Who waits for a key of them registers with its new server; the move may have swallowed a notice.
            self.watched.have_changed(|key| news.owners.binary_search(&slot_of(key.as_bytes())).is_ok());
        }
    }

    /// Where a slot is on its way to, as `from` said.
    fn passing(&self, redirect: &Redirect, from: Option<&Arc<Node>>) -> Option<Arc<Node>> {
        let address = self.named(redirect, from)?;
        self.map.write().guest(&address, |at| self.node(at), Instant::now())
    }

    fn named(&self, redirect: &Redirect, from: Option<&Arc<Node>>) -> Option<Address> {
        self.address(&redirect.host, redirect.port, from.and_then(|from| from.address()))
    }

    /// An empty host is that of the server that was asked.
    fn address(&self, host: &str, port: u16, asked: Option<&Address>) -> Option<Address> {
        let is_tls = self.seeds.iter().any(Address::is_tls);
        let known = if host.is_empty() { asked.or(self.seeds.first()) } else { None };
        match (host, known) {
            ("", Some(Address::Tcp { host, tls, .. })) => {
                Some(Address::Tcp { host: host.clone(), port, tls: *tls })
            }
            ("", _) => None,
            (host, _) => Some(Address::Tcp { host: host.to_owned(), port, tls: is_tls }),
        }
    }

    fn node(&self, address: &Address) -> Arc<Node> {
        Arc::new(Node::new(Arc::new(Connector {
            config: self.config.clone(),
            leads_to: LeadsTo::At(address.clone()),
            clock: Arc::new(ServerClock::new(self.local.clone())),
            watched: self.watched.clone(),
            connected: Mutex::default(),
            deaf: Arc::default(),
            replaced: Some(Replaced::new(self.changes.clone())),
        })))
    }

    /// Asks the server of `at` for a sign of life.
    pub(crate) async fn heartbeat_at(
        self: &Arc<Self>,
        at: &Keys,
        lane: Lane,
        within: Duration,
    ) -> Result<Timestamp, Error> {
        let slot = at.as_slice().first().map(|key| slot_of(key.as_bytes()));
        let home = self.home(slot, lane, within).await.map_err(|failure| failure.into_error("heartbeat"))?;
        let result = home.heartbeat(lane, within).await;
        if result.is_err() {
            self.look_soon(lane);
        }
        result
    }

    /// Asks every server that is used, by whatever lane, for a sign of life on this one, side by side. The latest time,
    /// or the first error.
    pub(crate) async fn heartbeat(
        self: &Arc<Self>,
        lane: Lane,
        within: Duration,
    ) -> Result<Timestamp, Error> {
        let mut used = self.primaries();
        used.retain(|(_, node)| node.is_in_use());
        if used.is_empty() {
            let home = self.home(None, lane, within).await;
            return home.map_err(|failure| failure.into_error("heartbeat"))?.heartbeat(lane, within).await;
        }
        self.look_now_and_then(lane);
        let mut asked: FuturesUnordered<_> =
            used.iter().map(|(_, node)| node.heartbeat(lane, within)).collect();
        let mut result = Ok(Timestamp::default());
        while let Some(answer) = asked.next().await {
            result = match (result, answer) {
                (Ok(one), Ok(other)) => Ok(one.max(other)),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        if result.is_err() {
            self.look_soon(lane);
        }
        result
    }
}

/// A server that is connected, or else whichever.
fn any(map: &Map, lane: Lane) -> Option<Arc<Node>> {
    let connected = map.primaries().find(|(.., node)| node.link(lane).is_up());
    connected.or_else(|| map.primaries().next()).map(|(.., node)| node.clone())
}

fn down(detail: &str) -> Failure {
    Failure { kind: ErrorKind::Refused(Refusal::ClusterDown), detail: detail.to_owned() }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster({})", self.config.address())
    }
}

/// All keys of one step lie in one slot, or nothing is sent.
pub(crate) fn one_slot(operation: &'static str, at: &Keys) -> Result<u16, Error> {
    let [first, rest @ ..] = at.as_slice() else {
        return Err(Error::bad_argument(operation, "no key is given"));
    };
    let slot = slot_of(first.as_bytes());
    match rest.iter().map(|key| (key, slot_of(key.as_bytes()))).find(|(_, other)| *other != slot) {
        None => Ok(slot),
        Some((key, other)) => Err(Error::new(
            ErrorKind::Unsupported,
            operation,
            format!(
                "on a cluster the keys of one step must lie in one slot: `{first}` lies in slot {slot}, `{key}` in \
                 slot {other}. Give them a common hash tag, as in `{{order}}:a` and `{{order}}:b`, or ask for one \
                 after another (`across_slots`, `joint_in_sequence`)"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use lockkeeper_core::{Key, ManualClock, Prefix};

    use super::map::View;
    use super::redirect::Kind;
    use super::*;

    /// A notice that the move swallowed is made up for by whoever hears of the move first.
    #[tokio::test]
    async fn who_waits_for_a_key_of_a_slot_that_moved_is_told_at_once_and_nobody_else() {
        let config = RedisConfig::from_url("redis+cluster://h").unwrap();
        let cluster = Cluster::new(config, vec![], Arc::new(ManualClock::default()));
        let keys = |name: &str| Keys::from(Key::new(&Prefix::new("lock:").unwrap(), name).unwrap());
        let (one, other) = (cluster.watched.watch(&keys("a")), cluster.watched.watch(&keys("b")));
        let (slot, host) = (slot_of(b"lock:a"), "h".to_owned());
        let redirect = Redirect { kind: Kind::Moved, slot, host, port: 7 };
        assert!(cluster.moved(&redirect, None).is_some());
        let told = async |watcher: &crate::wake::Watcher| {
            tokio::time::timeout(Duration::ZERO, watcher.changed()).await.is_ok()
        };
        assert!(told(&one).await && !told(&other).await);
        cluster.moved(&redirect, None);
        assert!(!told(&one).await, "no news");
        let view = |port| {
            let range = |first, last| slots::Range {
                first,
                last,
                primary: slots::Place { host: "h".into(), port },
                replicas: vec![],
            };
            let address = |port| Address::Tcp { host: "h".into(), port, tls: false };
            let ranges = vec![(range(0, slot - 1), address(7)), (range(slot, slot), address(port))];
            View { ranges, replicas: HashMap::new() }
        };
        cluster.take(view(7));
        assert!(!told(&one).await, "it is where it was");
        _ = told(&other).await;
        cluster.take(view(8));
        assert!(told(&one).await && !told(&other).await, "by a look");
    }

    #[test]
    fn an_empty_host_is_that_of_the_server_that_was_asked() {
        let config = RedisConfig::from_url("redis+cluster://seed").unwrap();
        let at = |host: &str, port| Address::Tcp { host: host.into(), port, tls: false };
        let cluster = Cluster::new(config, vec![at("seed", 1)], Arc::new(ManualClock::default()));
        let asked = cluster.node(&at("asked", 2));
        let redirect = |kind| Redirect { kind, slot: 5, host: String::new(), port: 7 };
        let moved = cluster.moved(&redirect(Kind::Moved), Some(&asked)).unwrap();
        assert_eq!(moved.address(), Some(&at("asked", 7)));
        let passing = cluster.passing(&redirect(Kind::Ask), Some(&asked)).unwrap();
        assert_eq!(passing.address(), Some(&at("asked", 7)));
    }
}
