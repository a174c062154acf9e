//! A cluster: a server for each range of slots, found by asking any of them.
//!
//! Every server has a [`Node`] of its own, with its own connections and its own clock. The map says which keeps a slot.
//! It is corrected at once by what a server says of one slot (`MOVED`), and looked at anew after anything that may mean
//! a change, and now and then; one look at a time.

mod map;
mod redirect;
mod route;
mod slots;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockkeeper_core::{Clock, Error, ErrorKind, Keys, Refusal, Timestamp, Uptime};
use parking_lot::{Mutex, RwLock};
use rand::seq::SliceRandom;
use redis::{Value, cmd};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use self::map::{Map, View};
use self::redirect::Redirect;
pub(crate) use self::route::{Errand, Look, Manner, Route, Step};
use crate::clock::ServerClock;
use crate::config::RedisConfig;
use crate::connect::{Connector, LeadsTo};
use crate::error::{CallError, Failure};
use crate::layout::slot_of;
use crate::node::{Lane, Node};
use crate::url::Address;
use crate::wake::Watched;

/// Looks at the map follow each other no sooner.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A map that is used is looked at anew so often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// While one server does not answer a look, the next is asked after so long.
const HEDGE: Duration = Duration::from_millis(100);

/// A cluster.
pub(crate) struct Cluster {
    config: RedisConfig,
    seeds: Vec<Address>,
    local: Arc<dyn Clock>,
    watched: Arc<Watched>,
    map: RwLock<Map>,
    /// One look at a time.
    turn: tokio::sync::Mutex<()>,
    looked: Mutex<Looked>,
    /// Looks that have ended.
    looks: AtomicU64,
    /// A look in the background is under way.
    is_looking: AtomicBool,
    /// Changes when slots or servers did, or a connection was replaced.
    changes: Arc<watch::Sender<u64>>,
}

/// The last look at the map.
#[derive(Default)]
struct Looked {
    at: Option<Instant>,
    failure: Option<Failure>,
}

impl Cluster {
    pub(crate) fn new(config: RedisConfig, seeds: Vec<Address>, local: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            config,
            seeds,
            local,
            watched: Arc::default(),
            map: RwLock::default(),
            turn: tokio::sync::Mutex::default(),
            looked: Mutex::default(),
            looks: AtomicU64::new(0),
            is_looking: AtomicBool::new(false),
            changes: Arc::new(watch::Sender::new(0)),
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
        if self.looked.lock().at.is_some_and(|at| at.elapsed() > LOOK_EVERY) {
            self.look_soon(lane);
        }
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
    fn moved(&self, redirect: &Redirect) -> Option<Arc<Node>> {
        let address = self.address(&redirect.host, redirect.port, None)?;
        let is_news = self.map.write().move_slot(redirect.slot, &address, |at| self.node(at));
        if is_news {
            self.changes.send_modify(|number| *number += 1);
        }
        self.map.read().at(&address).cloned()
    }

    /// Where a slot is on its way to.
    fn passing(&self, redirect: &Redirect) -> Option<Arc<Node>> {
        let address = self.address(&redirect.host, redirect.port, None)?;
        self.map.write().guest(&address, |at| self.node(at), Instant::now())
    }

    /// Looks in the background, unless that is under way.
    pub(crate) fn look_soon(self: &Arc<Self>, lane: Lane) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let looking = Looking(self.clone());
        runtime.spawn(async move {
            let cluster = &looking.0;
            let limit = cluster.config.connect_timeout.saturating_add(cluster.config.response_timeout);
            let seen = cluster.looks.load(Ordering::Acquire);
            if let Err(failure) = cluster.look(seen, lane, limit).await {
                tracing::debug!(error = %failure.detail, "the cluster's map could not be read");
            }
        });
    }

    /// Looks at the map, unless somebody did since `seen` looks had ended.
    pub(crate) async fn look(
        self: &Arc<Self>,
        seen: u64,
        lane: Lane,
        within: Duration,
    ) -> Result<(), Failure> {
        let late = || Failure::unreachable(format!("the cluster's map was not answered within {within:?}"));
        timeout(within, self.look_in_turn(seen, lane)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn look_in_turn(self: &Arc<Self>, seen: u64, lane: Lane) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        if self.looks.load(Ordering::Acquire) > seen {
            return self.looked.lock().failure.clone().map_or(Ok(()), Err);
        }
        let since = self.looked.lock().at.map_or(LOOK_PAUSE, |at| at.elapsed());
        tokio::time::sleep(LOOK_PAUSE.saturating_sub(since)).await;
        let result = self.ask_somebody(lane).await.map(|view| self.take(view));
        *self.looked.lock() = Looked { at: Some(Instant::now()), failure: result.clone().err() };
        self.looks.fetch_add(1, Ordering::AcqRel);
        result
    }

    fn take(&self, view: View) {
        let is_news = self.map.write().take(view, |address| self.node(address), Instant::now());
        if is_news {
            self.changes.send_modify(|number| *number += 1);
            // Who waits registers anew, with the server that keeps the key by now.
            self.watched.everything_changed();
        }
    }

    /// The first map that anybody answers: those who keep slots in random order, then the seeds.
    async fn ask_somebody(&self, lane: Lane) -> Result<View, Failure> {
        let mut candidates = self.primaries();
        candidates.shuffle(&mut rand::rng());
        let is_known = |seed: &Address| candidates.iter().any(|(address, _)| address == seed);
        let mut seeds: Vec<Address> = self.seeds.iter().filter(|seed| !is_known(seed)).cloned().collect();
        seeds.shuffle(&mut rand::rng());
        candidates.extend(seeds.into_iter().map(|seed| (seed.clone(), self.node(&seed))));
        let (mut asked, mut failures) = (FuturesUnordered::new(), Vec::new());
        let mut candidates = candidates.into_iter();
        loop {
            match candidates.next() {
                Some((address, node)) => asked.push(self.ask(address, node, lane)),
                None if asked.is_empty() => return Err(most_telling(failures)),
                None => {}
            }
            let patience = if candidates.len() == 0 { Duration::MAX } else { HEDGE };
            match timeout(patience, asked.next()).await {
                Ok(Some(Ok(view))) => return Ok(view),
                Ok(Some(Err(failure))) => failures.push(failure),
                Ok(None) | Err(_) => {}
            }
        }
    }

    async fn ask(&self, address: Address, node: Arc<Node>, lane: Lane) -> Result<View, Failure> {
        let link = node.link(lane);
        let mut up = link.up(self.config.connect_timeout).await?;
        let mut command = cmd("CLUSTER");
        command.arg("SLOTS");
        match link.send(&mut up, &command, self.config.response_timeout).await {
            Ok(value) => self.view(value, &address),
            Err(CallError::Answered(words)) if words.text().contains("cluster support disabled") => {
                let detail = format!(
                    "{address} is not a cluster (use redis:// for a single server): {}",
                    words.text()
                );
                Err(Failure { kind: ErrorKind::Unsupported, detail })
            }
            Err(CallError::Answered(words)) => Err(Failure {
                kind: ErrorKind::Refused(words.refusal()),
                detail: format!("{address}: CLUSTER SLOTS: {}", words.text()),
            }),
            Err(error) => Err(Failure::unreachable(format!("{address}: CLUSTER SLOTS: {error:?}"))),
        }
    }

    fn view(&self, value: Value, asked: &Address) -> Result<View, Failure> {
        let nonsense = || Failure {
            kind: ErrorKind::Unsupported,
            detail: format!("{asked}: the answer to CLUSTER SLOTS makes no sense"),
        };
        let ranges = slots::read(value).ok_or_else(nonsense)?;
        if ranges.is_empty() {
            return Err(down(&format!("CLUSTERDOWN {asked} knows of no server that keeps slots")));
        }
        let (mut view, mut replicas) = (Vec::with_capacity(ranges.len()), HashMap::new());
        for range in ranges {
            let at = |place: &slots::Place| self.address(&place.host, place.port, Some(asked));
            let primary = at(&range.primary).ok_or_else(nonsense)?;
            for replica in range.replicas.iter().filter_map(at).take(slots::MAX_NODES - 1) {
                replicas.insert(replica, primary.clone());
            }
            view.push((range, primary));
        }
        Ok(View { ranges: view, replicas })
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
            replaced: Some(self.changes.clone()),
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

    /// Asks every server that this lane is used with, side by side, for a sign of life. The latest time, or the first
    /// error.
    pub(crate) async fn heartbeat(
        self: &Arc<Self>,
        lane: Lane,
        within: Duration,
    ) -> Result<Timestamp, Error> {
        let mut used = self.primaries();
        used.retain(|(_, node)| node.link(lane).is_in_use());
        if used.is_empty() {
            let home = self.home(None, lane, within).await;
            return home.map_err(|failure| failure.into_error("heartbeat"))?.heartbeat(lane, within).await;
        }
        if self.looked.lock().at.is_some_and(|at| at.elapsed() > LOOK_EVERY) {
            self.look_soon(lane);
        }
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

/// What is wrong for ever before what may pass.
fn most_telling(failures: Vec<Failure>) -> Failure {
    let rank = |failure: &Failure| match failure.kind {
        ErrorKind::Unsupported => 0,
        ErrorKind::Refused(_) => 1,
        _ => 2,
    };
    let none = || Failure::unreachable("no server of the cluster is known");
    failures.into_iter().min_by_key(rank).unwrap_or_else(none)
}

/// A look in the background. However it ends, another may begin.
struct Looking(Arc<Cluster>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.is_looking.store(false, Ordering::Release);
    }
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
