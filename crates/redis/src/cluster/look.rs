//! Looking at the map: one look at a time, whoever does it.
//!
//! A look runs where its caller runs. A runtime that stands still in the middle of one keeps nobody from looking: after
//! a moment the next caller takes the turn over. What the late one brings then counts for nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockkeeper_core::ErrorKind;
use rand::seq::SliceRandom;
use redis::{Value, cmd};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::map::View;
use super::{Cluster, down, slots};
use crate::error::{CallError, Failure, rounded};
use crate::node::{Lane, Node};
use crate::url::Address;

/// Looks at the map follow each other no sooner.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A look that takes longer may be overtaken by another.
const LOOK_ALONE: Duration = Duration::from_millis(500);
/// A map that is used is looked at anew so often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// While one server does not answer a look, the next is asked after so long.
const HEDGE: Duration = Duration::from_millis(100);

/// Who looks, and what came of the last look.
#[derive(Default)]
pub(super) struct Looked {
    /// The look under way, and since when.
    turn: Option<(u64, Instant)>,
    /// Looks that have begun.
    begun: u64,
    /// The number of the look whose answer counts.
    last: u64,
    at: Option<Instant>,
    failure: Option<Failure>,
}

/// The turn to look. However it ends, another may begin.
struct Turn {
    cluster: Arc<Cluster>,
    number: u64,
}

impl Cluster {
    /// Looks in the background where the last look is old.
    pub(super) fn look_now_and_then(self: &Arc<Self>, lane: Lane) {
        if self.looked.lock().at.is_some_and(|at| at.elapsed() > LOOK_EVERY) {
            self.look_soon(lane);
        }
    }

    /// Looks in the background, unless that is under way.
    pub(crate) fn look_soon(self: &Arc<Self>, lane: Lane) {
        let Ok(runtime) = Handle::try_current() else { return };
        let Ok(turn) = self.begin_look() else { return };
        let limit = self.config.connect_timeout.saturating_add(self.config.response_timeout);
        runtime.spawn(async move {
            match timeout(limit, turn.look(lane)).await {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => {
                    tracing::debug!(error = %failure.detail, "the cluster's map could not be read");
                }
                Err(_) => tracing::debug!("the cluster's map was not answered within {limit:?}"),
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
        let late = || {
            Failure::unreachable(format!("the cluster's map was not answered within {:?}", rounded(within)))
        };
        timeout(within, self.look_in_turn(seen, lane)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn look_in_turn(self: &Arc<Self>, seen: u64, lane: Lane) -> Result<(), Failure> {
        loop {
            // Made before the look: whoever ends a turn wakes what was made before.
            let ended = self.turn_ended.notified();
            if self.looks.load(Ordering::Acquire) > seen {
                return self.looked.lock().failure.clone().map_or(Ok(()), Err);
            }
            match self.begin_look() {
                Ok(turn) => return turn.look(lane).await,
                // Either way it is looked again who has the turn.
                Err(left) => _ = timeout(left, ended).await,
            }
        }
    }

    /// Takes the turn, or says how long another has it for.
    fn begin_look(self: &Arc<Self>) -> Result<Turn, Duration> {
        let mut looked = self.looked.lock();
        let taken = looked.turn.map_or(Duration::MAX, |(_, since)| since.elapsed());
        let left = LOOK_ALONE.saturating_sub(taken);
        if !left.is_zero() {
            return Err(left);
        }
        looked.begun += 1;
        looked.turn = Some((looked.begun, Instant::now()));
        Ok(Turn { cluster: self.clone(), number: looked.begun })
    }

    pub(super) fn take(&self, view: View) {
        let news = self.map.write().take(view, |address| self.node(address), Instant::now());
        self.tell(&news);
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
}

impl Turn {
    async fn look(self, lane: Lane) -> Result<(), Failure> {
        let cluster = &self.cluster;
        let since = cluster.looked.lock().at.map_or(LOOK_PAUSE, |at| at.elapsed());
        tokio::time::sleep(LOOK_PAUSE.saturating_sub(since)).await;
        let result = cluster.ask_somebody(lane).await;
        let mut looked = cluster.looked.lock();
        if looked.last > self.number {
            // One that began later has ended before.
            return looked.failure.clone().map_or(Ok(()), Err);
        }
        let result = result.map(|view| cluster.take(view));
        (looked.last, looked.at) = (self.number, Some(Instant::now()));
        looked.failure = result.clone().err();
        cluster.looks.fetch_add(1, Ordering::AcqRel);
        result
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut looked = self.cluster.looked.lock();
        if looked.turn.is_some_and(|(number, _)| number == self.number) {
            looked.turn = None;
        }
        drop(looked);
        self.cluster.turn_ended.notify_waiters();
    }
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
