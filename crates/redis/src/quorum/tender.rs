//! Looking after one server of a majority: connects to it again and again, finds out whether it may vote, and writes its
//! marker when it may.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::lock::quorum::{Marker, Memory, Standing};
use redis::{Cmd, Value, cmd};
use tokio::time::timeout;

use super::roll::NodeStanding;
use super::{IDLE, Shared};
use crate::error::CallError;
use crate::layout::QUORUM_MARKER;
use crate::link::{Link, Up};

/// How often a server is looked at while its majority is in use.
const EVERY: Duration = Duration::from_secs(1);
/// How soon one that cannot be reached is asked again. The connection has pauses of its own.
const AGAIN: Duration = Duration::from_millis(50);
/// The longest time for looking at a server that is connected.
const LOOK: Duration = Duration::from_millis(500);

/// The task of one server. Should its runtime end with it, the next caller starts another.
pub(super) struct Tender {
    pub(super) shared: Weak<Shared>,
    pub(super) node: usize,
}

/// What one look at a server found.
struct Seen {
    run_id: Arc<str>,
    uptime: Duration,
    marker: Option<Marker>,
    refusal: Option<String>,
}

impl Tender {
    pub(super) async fn run(self) {
        loop {
            let Some(shared) = self.shared.upgrade() else { return };
            let standing = shared.examine(self.node).await;
            let pause = match &standing {
                NodeStanding::Votes | NodeStanding::Refused(_) => EVERY,
                NodeStanding::Abstains(left) => (*left).clamp(AGAIN, EVERY),
                NodeStanding::Away(_) | NodeStanding::Unknown => AGAIN,
            };
            if shared.is_idle() {
                let wanted = shared.wanted.clone();
                drop(shared);
                // Looked at now and then all the same, so that the task ends with its store.
                let _ = timeout(IDLE, wanted.notified()).await;
                continue;
            }
            let replaced = shared.node(self.node).and_then(|node| node.lanes[0].reconnections());
            drop(shared);
            let Some(mut replaced) = replaced else { return };
            let _ = timeout(pause, replaced.changed()).await;
        }
    }
}

impl Drop for Tender {
    fn drop(&mut self) {
        let shared = self.shared.upgrade();
        if let Some(node) = shared.as_ref().and_then(|shared| shared.node(self.node)) {
            node.is_tended.store(false, Ordering::Release);
        }
    }
}

impl Shared {
    /// Looks at a server once, and enters it in the roll.
    pub(super) async fn examine(&self, node: usize) -> NodeStanding {
        let Some(store) = self.node(node).map(|node| &node.lanes[0]) else { return NodeStanding::Unknown };
        let up = async { store.link()?.up(self.connect_limit).await };
        let mut up = match up.await {
            Ok(up) => up,
            Err(failure) => return self.enter_away(node, failure.detail),
        };
        let seen = match self.look(node, &mut up).await {
            Ok(seen) => seen,
            Err(error) => return self.enter_away(node, error),
        };
        let standing = self.enter(node, &seen, None);
        if standing != NodeStanding::Abstains(Duration::ZERO) {
            return standing;
        }
        // Whatever it may have forgotten has ended. On the connection that was looked at, so of the run that was.
        match self.mark(node, &mut up, &seen.run_id).await {
            Ok(marker) => self.enter(node, &Seen { marker: Some(marker.clone()), ..seen }, Some(&marker)),
            Err(error) => self.enter_away(node, format!("its marker cannot be written: {error}")),
        }
    }

    fn link_of(&self, node: usize) -> Result<&Link, String> {
        let node = self.node(node).ok_or("no such server")?;
        node.lanes[0].link().map_err(|failure| failure.detail)
    }

    async fn look(&self, node: usize, up: &mut Up) -> Result<Seen, String> {
        let info = up.info().clone();
        let link = self.link_of(node)?;
        let commands: [Cmd; 3] = [
            cmd("INFO").arg("server").to_owned(),
            cmd("INFO").arg("replication").to_owned(),
            cmd("GET").arg(QUORUM_MARKER).to_owned(),
        ];
        let replies = link.send_together(up, &commands, LOOK).await.map_err(|error| said(&error))?;
        let mut replies = replies.into_iter().map(|reply| reply.map_err(|error| said(&error)));
        let mut next = || replies.next().unwrap_or_else(|| Err("too few replies".to_owned()));
        let (server, replication, marker) = (next(), next(), next());
        let server = server.map_err(|error| format!("INFO is needed to know its run: {error}"))?;
        let replication = replication.map(|value| text(&value)).unwrap_or_default();
        let refusal = match (&*info.mode, field(&replication, "role")) {
            ("cluster", _) => Some("it is a member of a cluster".to_owned()),
            ("sentinel", _) => Some("it is a Sentinel".to_owned()),
            (_, "slave" | "replica") => Some("it is a replica of another server".to_owned()),
            _ => None,
        };
        // What INFO says on this connection; the probe's word is of the same connection, and thus of the same run.
        let uptime = field(&text(&server), "uptime_in_seconds").parse().unwrap_or(0);
        let marker = match marker {
            Ok(value) => Marker::parse(&text(&value)),
            Err(_) if refusal.is_some() => None,
            Err(error) => return Err(format!("its marker cannot be read: {error}")),
        };
        let run_id = Arc::from(&*info.run_id);
        Ok(Seen { run_id, uptime: Duration::from_secs(uptime), marker, refusal })
    }

    /// Writes the marker for the run that answers on `up`.
    pub(super) async fn mark(&self, node: usize, up: &mut Up, run_id: &str) -> Result<Marker, String> {
        let link = self.link_of(node)?;
        let (max_lease, nodes) = (self.rule.max_lease, self.rule.nodes);
        let marker = Marker { run: run_id.to_owned(), max_lease, nodes };
        let mut command = cmd("SET");
        command.arg(QUORUM_MARKER).arg(marker.to_text());
        link.send(up, &command, LOOK).await.map_err(|error| said(&error))?;
        Ok(marker)
    }

    fn enter_away(&self, node: usize, why: String) -> NodeStanding {
        let standing = NodeStanding::Away(why);
        self.change_roll(node, |one| one.standing = standing.clone());
        standing
    }

    /// What was seen becomes what is known. `Abstains(0)`: it may be marked.
    fn enter(&self, node: usize, seen: &Seen, written: Option<&Marker>) -> NodeStanding {
        let (now, rule) = (self.clock.uptime(), self.rule);
        self.change_roll(node, |one| {
            if written.is_none()
                && (one.run_id != seen.run_id || one.marker != seen.marker || one.since == super::NEVER)
            {
                one.since = now;
            }
            one.run_id = seen.run_id.clone();
            (one.uptime, one.marker) = (seen.uptime, seen.marker.clone());
            let memory = Memory {
                run: &seen.run_id,
                marker: seen.marker.as_ref(),
                uptime: seen.uptime,
                known: now.since(one.since),
            };
            one.standing = match (&seen.refusal, rule.standing(memory)) {
                (Some(why), _) => NodeStanding::Refused(why.clone()),
                (None, Standing::Votes) => NodeStanding::Votes,
                (None, Standing::VotesOnceMarked) => NodeStanding::Abstains(Duration::ZERO),
                (None, Standing::Abstains(left)) => NodeStanding::Abstains(left),
                (None, Standing::OfAnotherQuorum) => {
                    NodeStanding::Refused(other_quorum(seen.marker.as_ref()))
                }
            };
        })
    }
}

fn other_quorum(marker: Option<&Marker>) -> String {
    let (nodes, max_lease) = marker.map_or((0, Duration::ZERO), |marker| (marker.nodes, marker.max_lease));
    format!("its marker is that of a majority of {nodes} with max_lease={}ms", max_lease.as_millis())
}

fn said(error: &CallError) -> String {
    match error {
        CallError::Answered(words) => words.text().to_owned(),
        CallError::Broken(reason) => reason.clone(),
        CallError::Silent => "no answer in time".to_owned(),
    }
}

fn text(value: &Value) -> String {
    redis::from_redis_value_ref::<Option<String>>(value).ok().flatten().unwrap_or_default()
}

fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim()
}
