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
    outstanding: Nodes,
    give_up: Uptime,
    /// It goes on in the background already.
    leaving: Option<Leaving>,
}

impl Going {
    /// An answer counts unless a copy of what took it may come after it.
    fn note(&mut self, node: usize, result: Result<Answer<ReleaseReply>, Error>, said: &mut Said) {
        self.outstanding = self.outstanding.without(node);
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
        if self.outstanding.is_empty() {
            return;
        }
        let runtime = Handle::try_current().ok().filter(|_| self.leaving.is_none());
        let Some(runtime) = runtime else {
            // The runtime of these requests has ended: begun anew, on another.
            for node in self.outstanding.iter() {
                let doubt = self.record.as_ref().and_then(|record| record.doubt_at(node));
                self.shared.give_back_at(node, &self.keys, &self.token, doubt, self.give_up);
            }
            return;
        };
        let mut rest = Going {
            shared: self.shared.clone(),
            keys: self.keys.clone(),
            token: self.token.clone(),
            record: self.record.take(),
            flight: std::mem::take(&mut self.flight),
            outstanding: std::mem::take(&mut self.outstanding),
            give_up: self.give_up,
            leaving: Some(Leaving::new(&self.shared, &self.token)),
        };
        runtime.spawn(async move {
            while let Some((node, result)) = rest.flight.next().await {
                rest.note(node, result, &mut Said::default());
            }
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
            outstanding: Nodes::default(),
            give_up,
            leaving: None,
        };
        // Any run of the server will do: a release takes nothing.
        for node in holds.iter() {
            if reachable.has(node) {
                going.outstanding = going.outstanding.with(node);
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

    /// It was held until now where a majority says so, or nobody says otherwise: a server that is away says nothing.
    fn outcome(&self, said: Said, elsewhere: usize) -> Result<ReleaseReply, Error> {
        let Said { released, expired, others, errors } = said;
        let other = others.first().cloned().map(|(index, holder)| ReleaseReply::HeldByAnother(index, holder));
        if let Some(other) = other.filter(|_| self.majority.is_reached(others.len())) {
            return Ok(other);
        }
        let gone = expired.len() + others.len();
        if self.majority.is_reached(released)
            || (released > 0 && gone == 0 && !self.majority.is_reached(elsewhere))
        {
            return Ok(ReleaseReply::Released);
        }
        if !self.majority.is_reached(released + errors.len()) {
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
        if fences.is_empty() {
            return Ok(ForceReleaseReply::Free);
        }
        // Not below that of whoever was removed, and only where a majority has it: whoever comes next gets a greater one.
        let known =
            self.majority.fence(fences).filter(|(_, told)| self.fences && self.majority.is_reached(*told));
        Ok(ForceReleaseReply::Released(known.map_or(Fence::NONE, |(fence, _)| fence)))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::ManualClock;

    use super::*;
    use crate::QuorumConfig;

    #[test]
    fn a_release_is_told_only_where_those_who_are_silent_cannot_change_it() {
        let config = QuorumConfig::from_url("redis+quorum://a,b,c,d,e").unwrap();
        let store = QuorumStore::lazy(config, Arc::new(ManualClock::default())).unwrap();
        let outcome = |released, expired: usize, errors: usize| {
            let error = |node| (node, Error::new(ErrorKind::Unreachable, "release", "away"));
            let said = Said {
                released,
                expired: vec![0; expired],
                others: vec![],
                errors: (0..errors).map(error).collect(),
            };
            store.shared.outcome(said, 5 - released - expired - errors)
        };
        let is_unknown = |result: Result<ReleaseReply, Error>| {
            matches!(result.unwrap_err().kind(), ErrorKind::OutcomeUnknown { .. })
        };
        assert_eq!(outcome(3, 0, 0).unwrap(), ReleaseReply::Released);
        assert_eq!(outcome(2, 0, 1).unwrap(), ReleaseReply::Released, "nobody says otherwise");
        assert_eq!(outcome(3, 2, 0).unwrap(), ReleaseReply::Released);
        assert_eq!(outcome(2, 3, 0).unwrap(), ReleaseReply::Expired(0));
        assert_eq!(outcome(2, 1, 0).unwrap(), ReleaseReply::Expired(0), "two were never enough");
        assert!(is_unknown(outcome(1, 2, 2)), "two that had ended, and two that do not say");
        assert!(is_unknown(outcome(0, 0, 5)));
    }
}
