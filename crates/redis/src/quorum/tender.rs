//! Looking after one server of a majority: connects to it again and again, finds out whether it may vote, and writes its
//! marker when it may.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::lock::quorum::{Marker, Memory, Rule, Standing};
use lockkeeper_core::{ErrorKind, Refusal};
use redis::{Cmd, Value, cmd};
use tokio::time::timeout;

use super::roll::{NodeStanding, OTHER};
use super::{IDLE, Shared};
use crate::error::CallError;
use crate::layout::QUORUM_MARKER;
use crate::link::{Link, Up};
use crate::node::Lane;

/// How often a server is looked at while its majority is in use.
const EVERY: Duration = Duration::from_secs(1);
/// A server that nobody has looked at for so long may have been anything meanwhile.
const GAP: Duration = Duration::from_secs(3);
/// How soon one that cannot be reached is asked again. The connection has pauses of its own.
const AGAIN: Duration = Duration::from_millis(50);
/// The longest time for looking at a server that is connected.
const LOOK: Duration = Duration::from_millis(500);

/// The task of one server, on the thread of its majority.
pub(super) struct Tender {
    pub(super) shared: Weak<Shared>,
    pub(super) node: usize,
}

/// Whether a look may leave a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marking {
    Never,
    WhenDue,
}

/// How a marker is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Where there is none.
    First,
    Replacing,
}

/// What one look at a server found.
struct Seen {
    run_id: Arc<str>,
    uptime: Duration,
    marker: Option<Marker>,
    refusal: Option<String>,
    /// The refusal is a mistake in the list of servers.
    is_misconfigured: bool,
}

impl Tender {
    pub(super) async fn run(self) {
        loop {
            let Some(shared) = self.shared.upgrade() else { return };
            let standing = shared.examine(self.node, Lane::Renewal, Marking::WhenDue).await;
            let pause = match &standing {
                NodeStanding::Votes | NodeStanding::Refused(_) => EVERY,
                NodeStanding::Abstains(Duration::ZERO) => EVERY,
                NodeStanding::Abstains(left) => (*left).clamp(AGAIN, EVERY),
                NodeStanding::Away(_) | NodeStanding::Unknown => AGAIN,
            };
            // One that abstains is looked at without a gap, so that it votes again in time.
            if shared.is_idle() && !matches!(standing, NodeStanding::Abstains(_)) {
                let wanted = shared.wanted.clone();
                drop(shared);
                // Looked at now and then all the same, so that the task ends with its store.
                let _ = timeout(IDLE, wanted.notified()).await;
                continue;
            }
            let replaced = shared.node(self.node).and_then(|node| node.on(Lane::Renewal).reconnections());
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
    pub(super) async fn examine(&self, node: usize, lane: Lane, marking: Marking) -> NodeStanding {
        let Some(store) = self.node(node).map(|node| node.on(lane)) else { return NodeStanding::Unknown };
        let up = async { store.link()?.up(self.connect_limit).await };
        let mut up = match up.await {
            Ok(up) => up,
            Err(failure) => {
                let refuses = failure.kind == ErrorKind::Refused(Refusal::NotAuthenticated);
                return self.enter_away(node, failure.detail, refuses);
            }
        };
        let Ok(link) = store.link() else { return NodeStanding::Unknown };
        let seen = match self.look(link, &mut up).await {
            Ok(seen) => seen,
            Err(error) => return self.enter_away(node, error, false),
        };
        let standing = self.enter(node, &seen, None);
        let is_due = standing == NodeStanding::Abstains(Duration::ZERO) && marking == Marking::WhenDue;
        if !is_due || !self.may_mark(node) {
            return standing;
        }
        // A marker that somebody else writes meanwhile stands.
        let how = if seen.marker.is_some() { Mark::Replacing } else { Mark::First };
        // Whatever it may have forgotten has ended. On the connection that was looked at, so of the run that was.
        match self.mark(link, &mut up, &seen.run_id, how).await {
            Ok(Some(marker)) => {
                self.enter(node, &Seen { marker: Some(marker.clone()), ..seen }, Some(&marker))
            }
            Ok(None) => standing,
            Err(error) => self.enter_away(node, format!("its marker cannot be written: {error}"), false),
        }
    }

    /// By what is known of all the servers; see [`Rule::may_mark`](lockkeeper_core::lock::quorum::Rule::may_mark). A server
    /// that had another majority's marker is not ours by having lost it.
    fn may_mark(&self, node: usize) -> bool {
        let found = self.found.lock();
        if found.get(node).is_none_or(|one| one.others.is_some()) {
            return false;
        }
        let there = found.iter().filter(|one| one.is_there() && !one.is_unfit);
        let marker = |one: &'_ super::Found| one.marker.clone().or_else(|| one.others.clone());
        let markers: Vec<_> = there.map(marker).collect();
        self.rule.may_mark(&markers.iter().map(Option::as_ref).collect::<Vec<_>>())
    }

    async fn look(&self, link: &Link, up: &mut Up) -> Result<Seen, String> {
        let info = up.info().clone();
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
        let mut refusal = match (&*info.mode, field(&replication, "role")) {
            ("cluster", _) => Some("it is a member of a cluster".to_owned()),
            ("sentinel", _) => Some("it is a Sentinel".to_owned()),
            (_, "slave" | "replica") => Some("it is a replica of another server".to_owned()),
            _ => None,
        };
        // What INFO says on this connection; the probe's word is of the same connection, and thus of the same run.
        let uptime = field(&text(&server), "uptime_in_seconds").parse().unwrap_or(0);
        let marker = match marker {
            Ok(value) => {
                let (is_there, marker) = (value != Value::Nil, Marker::parse(&text(&value)));
                if is_there && marker.is_none() && refusal.is_none() {
                    refusal = Some("its marker is of another form, so of another majority".to_owned());
                }
                marker
            }
            Err(_) if refusal.is_some() => None,
            Err(error) => return Err(format!("its marker cannot be read: {error}")),
        };
        let run_id = Arc::from(&*info.run_id);
        // A replica may be one only until it is made a primary again.
        let is_misconfigured = matches!(&*info.mode, "cluster" | "sentinel");
        Ok(Seen { run_id, uptime: Duration::from_secs(uptime), marker, refusal, is_misconfigured })
    }

    /// Writes the marker for the run that answers on `up`. `None`: somebody else was first.
    pub(super) async fn mark(
        &self,
        link: &Link,
        up: &mut Up,
        run_id: &str,
        how: Mark,
    ) -> Result<Option<Marker>, String> {
        let marker = self.rule.marker(run_id);
        let mut command = cmd("SET");
        command.arg(QUORUM_MARKER).arg(marker.to_text());
        if how == Mark::First {
            command.arg("NX");
        }
        let reply = link.send(up, &command, LOOK).await.map_err(|error| said(&error))?;
        Ok((reply != Value::Nil).then_some(marker))
    }

    fn enter_away(&self, node: usize, why: String, refuses_login: bool) -> NodeStanding {
        let standing = NodeStanding::Away(why);
        self.change_roll(node, |one| {
            one.standing = standing.clone();
            one.refuses_login = refuses_login;
        });
        standing
    }

    /// What was seen becomes what is known. `Abstains(0)`: it may be marked.
    fn enter(&self, node: usize, seen: &Seen, written: Option<&Marker>) -> NodeStanding {
        let (now, rule) = (self.clock.uptime(), self.rule);
        self.change_roll(node, |one| {
            if written.is_none()
                && (one.run_id != seen.run_id
                    || one.marker != seen.marker
                    || !one.is_there()
                    || now.since(one.looked) > GAP)
            {
                one.since = now;
            }
            one.looked = now;
            one.is_unfit = seen.refusal.is_some();
            one.is_misconfigured = seen.is_misconfigured;
            one.run_id = seen.run_id.clone();
            (one.uptime, one.marker) = (seen.uptime, seen.marker.clone());
            match &seen.marker {
                Some(marker) if rule.is_ours(marker) => one.others = None,
                Some(marker) => one.others = Some(marker.clone()),
                None => {}
            }
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
                    NodeStanding::Refused(other_quorum(&rule, seen.marker.as_ref()))
                }
            };
        })
    }
}

fn other_quorum(rule: &Rule, marker: Option<&Marker>) -> String {
    let Some(Marker { nodes, max_lease, persistent, of, .. }) = marker else { return String::new() };
    let said = |nodes: usize, max_lease: Duration, persistent: bool| {
        let length = match max_lease.subsec_millis() {
            0 => format!("{}s", max_lease.as_secs()),
            _ => format!("{}ms", max_lease.as_millis()),
        };
        format!("{nodes} with max_lease={length}, persistent={}", if persistent { "yes" } else { "no" })
    };
    let others = match *of == rule.of {
        true => "",
        false => ", and of other servers, or of these by other addresses or another name",
    };
    let (theirs, ours) =
        (said(*nodes, *max_lease, *persistent), said(rule.nodes, rule.max_lease, rule.persistent));
    match theirs == ours {
        true => format!("{OTHER} is that of a majority of {theirs}{others}"),
        false => format!("{OTHER} is that of a majority of {theirs}{others}; this URL says {ours}"),
    }
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

#[cfg(test)]
mod tests {
    use lockkeeper_core::ManualClock;

    use super::*;
    use crate::{QuorumConfig, QuorumStore};

    #[test]
    fn a_server_that_had_anothers_marker_is_not_opened_by_waiting_once_it_lost_it() {
        let clock = Arc::new(ManualClock::default());
        let config = QuorumConfig::from_url("redis+quorum://a,b,c?max_lease=10s").unwrap();
        let shared = QuorumStore::lazy(config, clock).unwrap().shared;
        let see = |node: usize, marker: Option<Marker>| {
            let (run_id, uptime) = (Arc::from(format!("r{node}")), Duration::from_secs(3600));
            let seen = Seen { run_id, uptime, marker, refusal: None, is_misconfigured: false };
            shared.enter(node, &seen, None);
        };
        (0..3).for_each(|node| see(node, None));
        assert!(shared.may_mark(0), "all are there and have none");
        let other = Rule { of: lockkeeper_core::lock::quorum::Membership::named("other"), ..shared.rule };
        see(2, Some(other.marker("r2")));
        see(2, None);
        assert!((0..3).all(|node| !shared.may_mark(node)), "it was restarted, and is another's still");
        (0..2).for_each(|node| see(node, Some(shared.rule.marker("x"))));
        assert!(shared.may_mark(0) && !shared.may_mark(2));
        see(2, Some(shared.rule.marker("r2")));
        assert!(shared.may_mark(2), "an operator has given it to us");
    }

    #[test]
    fn a_server_is_known_only_for_as_long_as_it_was_looked_at_without_a_gap() {
        let clock = Arc::new(ManualClock::default());
        let config = QuorumConfig::from_url("redis+quorum://a,b,c?max_lease=10s").unwrap();
        let shared = QuorumStore::lazy(config, clock.clone()).unwrap().shared;
        let look = || {
            let uptime = Duration::from_secs(3600);
            let (run_id, marker, refusal) = ("r".into(), None, None);
            shared.enter(0, &Seen { run_id, uptime, marker, refusal, is_misconfigured: false }, None)
        };
        let whole = NodeStanding::Abstains(Duration::from_millis(10_102));
        assert_eq!(look(), whole);
        for _ in 0..9 {
            clock.advance(EVERY);
            look();
        }
        assert_eq!(look(), NodeStanding::Abstains(Duration::from_millis(1102)));
        clock.advance(GAP + EVERY);
        assert_eq!(look(), whole, "it may have been anything meanwhile");
        clock.advance(EVERY);
        shared.enter_away(0, "gone".to_owned(), false);
        assert_eq!(look(), whole, "and so it may where it was away");
    }
}
