//! How the servers stand, and opening a new majority.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper_core::lock::quorum::{Majority, Marker};
use lockkeeper_core::{Error, ErrorKind};

use super::roll::{NodeReport, NodeStanding, OTHER};
use super::tender::{Mark, Marking};
use super::{QuorumStore, Shared};
use crate::layout::QUORUM_MARKER;
use crate::node::Lane;
use crate::store::RedisStore;

impl QuorumStore {
    /// Looks at every server now.
    ///
    /// # Redis
    /// Two `INFO` and a `GET` at each server, together.
    ///
    /// # Cancel safety
    /// Yes: nothing is left behind, at no server.
    pub async fn status(&self) -> Vec<NodeReport> {
        let shared = &self.shared;
        join_all((0..shared.nodes.len()).map(|node| shared.examine(node, Lane::Command, Marking::Never)))
            .await;
        shared.reports()
    }

    /// What is known without asking.
    pub fn known(&self) -> Vec<NodeReport> {
        self.shared.reports()
    }

    /// How many servers there are, and how many are needed.
    pub fn majority(&self) -> Majority {
        self.shared.majority
    }

    /// Each server by itself, for diagnosis. What is taken through one of these is taken at one server only.
    pub fn each(&self) -> impl Iterator<Item = (String, &RedisStore)> {
        self.shared.nodes.iter().enumerate().map(|(at, node)| (self.shared.name(at), node.on(self.lane)))
    }

    /// Opens a brand-new majority: every server votes at once, because none can have promised anything.
    ///
    /// # Errors
    /// A server cannot be reached, or is no independent one; unless `force`, one has a marker already, of whatever
    /// run, so that the majority is not new. Also with `force`: servers are taken from another majority that would still be one
    /// with the others. Nothing was marked then.
    ///
    /// # Cancel safety
    /// Some servers may have been marked.
    pub async fn init(&self, force: bool) -> Result<Vec<NodeReport>, Error> {
        let shared = &self.shared;
        let reports = self.status().await;
        let is_other = |why: &str| why.starts_with(OTHER);
        for report in &reports {
            let refuse = |kind, why: String| {
                Err(Error::new(kind, "quorum init", format!("{} {why}; nothing was marked", report.address)))
            };
            match &report.standing {
                NodeStanding::Refused(why) if force && is_other(why) => {}
                NodeStanding::Refused(_) => {
                    return refuse(ErrorKind::Unsupported, report.standing.to_string());
                }
                NodeStanding::Away(_) | NodeStanding::Unknown => {
                    return refuse(ErrorKind::Unreachable, report.standing.to_string());
                }
                NodeStanding::Votes if !force => {
                    let why = "votes already, so this majority is not new".to_owned();
                    return refuse(ErrorKind::BadArgument, why);
                }
                NodeStanding::Abstains(_) if !force && report.marker.is_some() => {
                    let why = "has a marker of an earlier run, so this majority is not new".to_owned();
                    return refuse(ErrorKind::BadArgument, why);
                }
                NodeStanding::Votes | NodeStanding::Abstains(_) => {}
            }
            if report.run_id.is_empty() {
                return refuse(ErrorKind::Unsupported, "does not say its run (INFO is needed)".to_owned());
            }
        }
        if let Some(why) = self.leaves_a_majority(&reports) {
            return Err(Error::new(ErrorKind::BadArgument, "quorum init", why));
        }
        let how = if force { Mark::Replacing } else { Mark::First };
        for (node, report) in reports.iter().enumerate() {
            shared.mark_now(node, &report.run_id, how).await?;
        }
        Ok(self.status().await)
    }

    /// The old majority that goes on although some of its servers are taken for this one: both would give out locks.
    fn leaves_a_majority(&self, reports: &[NodeReport]) -> Option<String> {
        let rule = self.shared.rule;
        let others = || reports.iter().filter_map(|one| one.marker.as_ref()).filter(|one| !rule.is_ours(one));
        let same = |one: &Marker, other: &Marker| *one == Marker { run: one.run.clone(), ..other.clone() };
        let taken = |of: &Marker| others().filter(|one| same(one, of)).count();
        let left = |of: &Marker| of.nodes.saturating_sub(taken(of));
        let goes_on = others().find(|of| Majority::of(of.nodes).is_ok_and(|all| all.is_reached(left(of))))?;
        let (taken, nodes, left) = (taken(goes_on), goes_on.nodes, left(goes_on));
        Some(format!(
            "{taken} of these servers belong to a majority of {nodes}, which would go on with its other {left}: both would give \
             out locks. Stop its clients for good and remove `{QUORUM_MARKER}` from the servers that are taken; nothing was marked"
        ))
    }

    /// A majority of this lane's connections stands, as far as is known.
    pub fn is_connected(&self) -> bool {
        let up = self.shared.nodes.iter().filter(|node| node.on(self.lane).is_connected());
        self.shared.majority.is_reached(up.count())
    }

    /// Asks a majority for a sign of life. One `TIME` at each server.
    ///
    /// # Errors
    /// Fewer than a majority vote, or answer.
    pub async fn heartbeat(&self, within: Duration) -> Result<(), Error> {
        let shared = &self.shared;
        shared.voters("heartbeat", within).await?;
        let answers =
            join_all(shared.nodes.iter().map(|node| node.on(self.lane).heartbeat(within.min(BEAT)))).await;
        let (there, away): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        match away.into_iter().find_map(Result::err).filter(|_| !shared.majority.is_reached(there.len())) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// By how much the servers' clocks are ahead of this machine's, in microseconds: that of the one farthest off.
    pub fn server_ahead_us(&self) -> i64 {
        let ahead = self.shared.nodes.iter().map(|node| node.on(Lane::Command).server_ahead_us());
        ahead.max_by_key(|ahead| ahead.unsigned_abs()).unwrap_or_default()
    }
}

/// The longest time for one server's sign of life.
const BEAT: Duration = Duration::from_millis(500);

impl Shared {
    fn reports(&self) -> Vec<NodeReport> {
        let found = self.found.lock();
        let nodes = self.nodes.iter().zip(found.iter());
        let report = |(node, one): (&super::Node, &super::Found)| NodeReport {
            address: one.address.clone(),
            standing: one.standing.clone(),
            run_id: one.run_id.to_string(),
            uptime: one.uptime,
            marker: one.marker.clone(),
            is_misconfigured: one.is_misconfigured && matches!(one.standing, NodeStanding::Refused(_)),
            ahead_us: node.on(Lane::Command).server_ahead_us(),
        };
        nodes.map(report).collect()
    }

    async fn mark_now(&self, node: usize, run_id: &str, how: Mark) -> Result<(), Error> {
        let failed = |why: String| {
            let detail = format!("{}: {why}", self.name(node));
            Error::new(ErrorKind::Unreachable, "quorum init", detail)
        };
        let Some(store) = self.node(node).map(|node| node.on(Lane::Command)) else { return Ok(()) };
        let up = async { store.link()?.up(self.connect_limit).await };
        let mut up = up.await.map_err(|failure| failed(failure.detail))?;
        if up.info().run_id != run_id {
            return Err(failed("it was restarted meanwhile; begin again, with force".to_owned()));
        }
        let link = store.link().map_err(|failure| failed(failure.detail))?;
        if self.mark(link, &mut up, run_id, how).await.map_err(failed)?.is_none() {
            return Err(failed("somebody else has marked it meanwhile".to_owned()));
        }
        self.last_used.store(self.clock.uptime().as_micros(), Ordering::Relaxed);
        Ok(())
    }
}
