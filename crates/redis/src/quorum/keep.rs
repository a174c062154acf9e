//! Keeping: a renewal by a majority, which also takes the servers that lack the key.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lockkeeper_core::lock::quorum::Count;
use lockkeeper_core::lock::{
    Acquire, AcquireReply, FenceRequest, Holder, Lease, OwnerToken, Renew, RenewReply,
};
use lockkeeper_core::{Answer, Apply, Error, ErrorKind, Keys, Timestamp, Uptime};

use super::roll::Roll;
use super::take::enter;
use super::votes::{Effect, Flight, Result1, most_telling};
use super::{QuorumStore, Shared};

/// What the servers have said so far.
#[derive(Default)]
struct Said {
    renewed: usize,
    /// They lack the key at this index.
    absent: Vec<(usize, usize)>,
    others: Vec<(usize, Holder)>,
    errors: Vec<(usize, Error)>,
}

impl Said {
    fn note(&mut self, (node, result): Result1<RenewReply>) {
        match result.map(|answer| answer.reply) {
            Ok(RenewReply::Renewed) => self.renewed += 1,
            Ok(RenewReply::Expired(index)) => self.absent.push((node, index)),
            Ok(RenewReply::HeldByAnother(index, holder)) => self.others.push((index, holder)),
            Err(error) => self.errors.push((node, error)),
        }
    }
}

/// Taking servers that lack the key, for a token that is held elsewhere.
#[derive(Clone)]
struct TopUp {
    shared: Arc<Shared>,
    keys: Keys,
    token: OwnerToken,
    lease: Lease,
    record: u64,
    last_fence: u64,
    within: Duration,
    ends: Uptime,
    roll: Arc<Roll>,
}

impl TopUp {
    /// Entered before it is sent: a release that comes meanwhile reaches these servers too. Nothing, once the token was
    /// released (invariant 10).
    fn send(&self, node: usize) -> Option<super::votes::Sent<AcquireReply>> {
        let fences = FenceRequest { seen: self.last_fence, block: 1 };
        let (token, lease) = (self.token.clone(), self.lease);
        let acquire = Acquire { token, lease, fences, not_after: Timestamp::MAX };
        let run = self.roll.runs.get(node).cloned().flatten()?;
        let effect = Effect { holds: true, doubt: None };
        enter(&self.shared, &self.token, self.record, node, effect).then(|| {
            let lane = crate::node::Lane::Renewal;
            self.shared.send(lane, node, &self.keys, acquire, self.within, Some(run))
        })
    }

    /// True if the server holds it now.
    fn note(&self, (node, result): Result1<AcquireReply>) -> bool {
        let took = |reply: &AcquireReply| matches!(reply, AcquireReply::Granted(_));
        let effect = Effect::of(&result, self.within, took);
        if !enter(&self.shared, &self.token, self.record, node, effect) && effect.holds {
            self.shared.give_back_at(node, &self.keys, &self.token, effect.doubt, self.ends);
        }
        result.is_ok_and(|answer| took(&answer.reply))
    }

    fn send_to(&self, absent: &[(usize, usize)]) -> Flight<AcquireReply> {
        absent.iter().filter_map(|(node, _)| self.send(*node)).collect()
    }
}

impl Shared {
    async fn renew(
        self: &Arc<Self>,
        store: &QuorumStore,
        at: &Keys,
        decision: Renew,
        within: Duration,
    ) -> Result<RenewReply, Error> {
        let lease = decision.lease;
        self.check_lease(lease, "renew")?;
        let now = self.clock.uptime();
        let roll = self.voters("renew", within).await?;
        let ends = now.after(lease.as_duration()).after(lease.as_duration() / 50).after(within);
        let record = self.ledger.prolong(&decision.token, ends);
        let limit = self.node_limit(lease, within);
        let mut flight = self.send_all(store.lane, at, &decision, limit, &roll);
        let top_up = record.map(|(record, last_fence)| TopUp {
            shared: self.clone(),
            keys: at.clone(),
            token: decision.token,
            lease,
            record,
            last_fence,
            within: limit,
            ends,
            roll,
        });
        let mut said = Said::default();
        while self.majority.count(said.renewed, flight.len()) == Count::Open {
            match flight.next().await {
                Some(answer) => said.note(answer),
                None => break,
            }
        }
        if self.majority.is_reached(said.renewed) {
            tokio::spawn(complete(top_up, flight, said));
            return Ok(RenewReply::Renewed);
        }
        // What is left says whether it is lost, or only out of reach.
        while let Some(answer) = flight.next().await {
            said.note(answer);
        }
        if let Some(lost) = self.lost(&said) {
            return Ok(lost);
        }
        let topped = match &top_up {
            Some(top_up) => self.topped_up(top_up, &said).await,
            None => 0,
        };
        if self.majority.is_reached(said.renewed + topped) {
            return Ok(RenewReply::Renewed);
        }
        let (renewed, nodes, needed) = (said.renewed, self.majority.nodes(), self.majority.needed());
        let words = format!("{renewed} of {nodes} servers renewed it, and {needed} are needed");
        let error = most_telling("renew", &said.errors, |node| self.name(node), &words);
        match error.kind() == ErrorKind::WrongType {
            true => Err(error),
            false => Err(Error::new(
                ErrorKind::OutcomeUnknown { not_after: None },
                "renew",
                error.detail().to_owned(),
            )),
        }
    }

    /// A majority no longer keeps it. Where fewer say so, it can be taken there again; where a majority does, somebody
    /// else may have been in, or an operator has removed it: lost is lost.
    fn lost(&self, said: &Said) -> Option<RenewReply> {
        if !self.majority.is_reached(said.absent.len() + said.others.len()) {
            return None;
        }
        let other = said.others.first().cloned();
        let other = other.map(|(index, holder)| RenewReply::HeldByAnother(index, holder));
        let absent = said.absent.first().map(|(_, index)| RenewReply::Expired(*index));
        if self.majority.is_reached(said.others.len()) { other.or(absent) } else { absent.or(other) }
    }

    /// At how many servers it is held again that lacked it.
    async fn topped_up(&self, top_up: &TopUp, said: &Said) -> usize {
        let mut flight = top_up.send_to(&said.absent);
        let mut topped = 0;
        while let Some(answer) = flight.next().await {
            topped += usize::from(top_up.note(answer));
        }
        topped
    }
}

/// After a majority has renewed it: the servers that lack it are taken too, so that one more may fail.
async fn complete(top_up: Option<TopUp>, mut flight: Flight<RenewReply>, mut said: Said) {
    while let Some(answer) = flight.next().await {
        said.note(answer);
    }
    if let Some(top_up) = top_up {
        let mut flight = top_up.send_to(&said.absent);
        while let Some(answer) = flight.next().await {
            top_up.note(answer);
        }
    }
}

impl Apply<Renew> for QuorumStore {
    async fn apply(&self, at: &Keys, decision: Renew, within: Duration) -> Result<Answer<RenewReply>, Error> {
        let reply = self.shared.renew(self, at, decision, within).await;
        reply.map(|reply| self.shared.answer(reply)).map_err(|error| error.with_key(at))
    }
}
