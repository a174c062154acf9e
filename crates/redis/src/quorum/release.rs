//! Releasing, and removing by force, at all servers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lockkeeper_core::lock::{
    Fence, ForceRelease, ForceReleaseReply, Holder, OwnerToken, Release, ReleaseReply,
};
use lockkeeper_core::{Answer, Apply, Error, ErrorKind, Keys, Uptime};
use tokio::runtime::Handle;

use super::back::Leaving;
use super::ledger::{Nodes, Record};
use super::roll::NodeStanding;
use super::votes::{Flight, most_telling};
use super::{QuorumStore, Shared};

/// How long a release waits for a server that may have a say in its outcome; afterwards it goes on in the background.
const RELEASE_NODE: Duration = Duration::from_millis(250);

/// What the servers have said so far.
#[derive(Default)]
struct Said {
    released: usize,
    expired: Vec<usize>,
    others: Vec<(usize, Holder)>,
    errors: Vec<(usize, Error)>,
}

/// A release under way. Dropped before it is answered, it goes on in the background.
struct Going {
    shared: Arc<Shared>,
    keys: Keys,
    token: OwnerToken,
    record: Option<Record>,
    flight: Flight<ReleaseReply>,
    give_up: Uptime,
}

impl Going {
    /// An answer counts unless a copy of what took it may come after it.
    fn note(&self, node: usize, result: Result<Answer<ReleaseReply>, Error>, said: &mut Said) {
        let doubt = self.record.as_ref().and_then(|record| record.doubt_at(node));
        let is_final = result.as_ref().is_ok_and(|answer| doubt.is_none_or(|until| answer.at > until));
        if !is_final {
            self.shared.give_back_at(node, &self.keys, &self.token, doubt, self.give_up);
        }
        match result.map(|answer| answer.reply) {
            Ok(ReleaseReply::Released) => said.released += 1,
            Ok(ReleaseReply::Expired(index)) => said.expired.push(index),
            Ok(ReleaseReply::HeldByAnother(index, holder)) => said.others.push((index, holder)),
            Err(error) => said.errors.push((node, error)),
        }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let mut flight = std::mem::take(&mut self.flight);
        if flight.is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let leaving = Leaving::new(&self.shared, &self.token);
        let rest = Going {
            shared: self.shared.clone(),
            keys: self.keys.clone(),
            token: self.token.clone(),
            record: self.record.take(),
            flight: Flight::new(),
            give_up: self.give_up,
        };
        runtime.spawn(async move {
            while let Some((node, result)) = flight.next().await {
                rest.note(node, result, &mut Said::default());
            }
            drop(leaving);
        });
    }
}

impl Shared {
    async fn release(
        self: &Arc<Self>,
        store: &QuorumStore,
        at: &Keys,
        decision: Release,
        within: Duration,
    ) -> Result<ReleaseReply, Error> {
        self.touch();
        let record = self.ledger.end(&decision.token);
        if record.is_none() {
            // A token of another process: wherever it may be.
            let _ = self.voters("release", within).await?;
        }
        let all = Nodes::all(self.nodes.len());
        let holds = record.as_ref().map_or(all, |record| record.holds);
        let now = self.clock.uptime();
        let give_up = now.after(self.rule.max_lease).after(self.response_timeout);
        let limit = within.min(RELEASE_NODE.max(within / 8));
        let reachable = self.reachable();
        let mut said = Said::default();
        let mut going = Going {
            shared: self.clone(),
            keys: at.clone(),
            token: decision.token.clone(),
            record,
            flight: Flight::new(),
            give_up,
        };
        // Any run of the server will do: a release takes nothing.
        for node in holds.iter() {
            if reachable.has(node) {
                going.flight.push(self.send(store.lane, node, at, decision.clone(), limit, None));
            } else {
                let away = Error::new(ErrorKind::Unreachable, "release", "the server is away");
                going.note(node, Err(away), &mut said);
            }
        }
        // Where it never was, it is not.
        let elsewhere = self.nodes.len() - holds.count();
        while !self.is_decided(&said, elsewhere) {
            match going.flight.next().await {
                Some((node, result)) => going.note(node, result, &mut said),
                None => break,
            }
        }
        self.outcome(said, elsewhere)
    }

    fn is_decided(&self, said: &Said, elsewhere: usize) -> bool {
        self.majority.is_reached(said.released)
            || self.majority.is_reached(said.others.len())
            || self.majority.is_reached(said.expired.len() + elsewhere)
    }

    /// It was held until now unless a majority says otherwise: a server that is away says nothing.
    fn outcome(&self, said: Said, elsewhere: usize) -> Result<ReleaseReply, Error> {
        let Said { released, expired, others, errors } = said;
        let other = others.first().cloned().map(|(index, holder)| ReleaseReply::HeldByAnother(index, holder));
        if let Some(other) = other.filter(|_| self.majority.is_reached(others.len())) {
            return Ok(other);
        }
        if released > 0 && !self.majority.is_reached(expired.len() + others.len() + elsewhere) {
            return Ok(ReleaseReply::Released);
        }
        if self.majority.is_reached(released + expired.len() + others.len() + elsewhere) {
            return Ok(ReleaseReply::Expired(expired.first().copied().unwrap_or(0)));
        }
        let answered = self.nodes.len() - errors.len();
        let (nodes, needed) = (self.majority.nodes(), self.majority.needed());
        let words = format!("{answered} of {nodes} servers answered, and {needed} are needed");
        let error = most_telling("release", &errors, |node| self.name(node), &words);
        if error.kind() == ErrorKind::WrongType {
            return Err(error);
        }
        let unknown = ErrorKind::OutcomeUnknown { not_after: None };
        Err(Error::new(unknown, "release", format!("{}; it goes on in the background", error.detail())))
    }

    /// Servers that are there, whether they vote or not.
    pub(super) fn reachable(&self) -> Nodes {
        let found = self.found.lock();
        let there = found.iter().enumerate().filter(|(_, one)| {
            !matches!(one.standing, NodeStanding::Away(_) | NodeStanding::Refused(_) | NodeStanding::Unknown)
        });
        there.fold(Nodes::default(), |nodes, (node, _)| nodes.with(node))
    }

    async fn force(
        self: &Arc<Self>,
        store: &QuorumStore,
        at: &Keys,
        decision: ForceRelease,
        within: Duration,
    ) -> Result<ForceReleaseReply, Error> {
        let roll = self.voters("force_release", within).await?;
        let mut flight = self.send_all(store.lane, at, &decision, within, &roll);
        let (mut fences, mut free, mut others, mut errors) = (Vec::new(), 0, Vec::new(), Vec::new());
        // All of them: it is an operator who waits, and what is left over somewhere would be in the way.
        while let Some((node, result)) = flight.next().await {
            match result.map(|answer| answer.reply) {
                Ok(ForceReleaseReply::Released(fence)) => fences.push(fence),
                Ok(ForceReleaseReply::Free) => free += 1,
                Ok(ForceReleaseReply::HeldByAnother(holder)) => others.push(holder),
                Err(error) => errors.push((node, error)),
            }
        }
        let answered = fences.len() + free + others.len();
        if !self.majority.is_reached(answered) {
            let (nodes, needed) = (self.majority.nodes(), self.majority.needed());
            let words = format!("{answered} of {nodes} servers answered, and {needed} are needed");
            let error = most_telling("force_release", &errors, |node| self.name(node), &words);
            let unknown = ErrorKind::OutcomeUnknown { not_after: None };
            let kind = if fences.is_empty() { error.kind() } else { unknown };
            return Err(Error::new(kind, "force_release", error.detail().to_owned()));
        }
        let other =
            others.first().cloned().filter(|_| self.majority.is_reached(others.len()) || fences.is_empty());
        if let Some(holder) = other {
            return Ok(ForceReleaseReply::HeldByAnother(holder));
        }
        // The next holder shares a server with this majority, and gets a greater one than the least of these.
        let least = fences.into_iter().min();
        Ok(match (least, self.fences) {
            (None, _) => ForceReleaseReply::Free,
            (Some(fence), true) => ForceReleaseReply::Released(fence),
            (Some(_), false) => ForceReleaseReply::Released(Fence::NONE),
        })
    }
}

impl Apply<Release> for QuorumStore {
    async fn apply(
        &self,
        at: &Keys,
        decision: Release,
        within: Duration,
    ) -> Result<Answer<ReleaseReply>, Error> {
        let reply = self.shared.release(self, at, decision, within).await;
        reply.map(|reply| self.shared.answer(reply)).map_err(|error| error.with_key(at))
    }
}

impl Apply<ForceRelease> for QuorumStore {
    async fn apply(
        &self,
        at: &Keys,
        decision: ForceRelease,
        within: Duration,
    ) -> Result<Answer<ForceReleaseReply>, Error> {
        let reply = self.shared.force(self, at, decision, within).await;
        reply.map(|reply| self.shared.answer(reply)).map_err(|error| error.with_key(at))
    }
}
