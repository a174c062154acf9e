//! Taking: acquire, watch and swap, by a majority.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use lockkeeper_core::lock::quorum::Count;
use lockkeeper_core::lock::{
    Acquire, AcquireReply, Busy, Fence, FenceRequest, Lease, OwnerToken, Swap, SwapReply, Watch,
    WatchOutcome, WatchReply,
};
use lockkeeper_core::{Answer, Apply, Error, ErrorKind, Keys, Uptime};
use tokio::runtime::Handle;

use super::back::Leaving;
use super::fence::Granted;
use super::ledger::Nodes;
use super::roll::Roll;
use super::votes::{Effect, Flight, Result1, most_telling};
use super::{QuorumStore, Shared};
use crate::node::Lane;
use crate::port::Port;
use crate::reply::Malformed;

/// So often votes that were split are asked for again, after pauses that differ between those who ask.
const SPLIT_TRIES: u32 = 6;
/// The longest pause before the first of these; it doubles.
const SPLIT_PAUSE: Duration = Duration::from_millis(4);

/// One server's word.
pub(super) enum Vote {
    Granted(Fence),
    Busy(Busy),
    /// Nobody holds the key at this index, and it was to be swapped.
    Absent(usize),
}

/// A decision that takes keys.
pub(super) trait Takes: Port {
    /// Split votes may be asked for again: nothing but the token's own request is involved.
    const MAY_REPEAT: bool;
    fn token(&self) -> &OwnerToken;
    fn lease(&self) -> Lease;
    fn fences(&mut self) -> &mut FenceRequest;
    /// Also whether others wait.
    fn vote(reply: Self::Reply) -> (Vote, bool);
    fn took(reply: &Self::Reply) -> bool;
}

impl Takes for Acquire {
    const MAY_REPEAT: bool = true;
    fn token(&self) -> &OwnerToken {
        &self.token
    }
    fn lease(&self) -> Lease {
        self.lease
    }
    fn fences(&mut self) -> &mut FenceRequest {
        &mut self.fences
    }
    fn vote(reply: AcquireReply) -> (Vote, bool) {
        match reply {
            AcquireReply::Granted(fence) => (Vote::Granted(fence), false),
            AcquireReply::Busy(busy) => (Vote::Busy(busy), false),
        }
    }
    fn took(reply: &AcquireReply) -> bool {
        matches!(reply, AcquireReply::Granted(_))
    }
}

impl Takes for Watch {
    const MAY_REPEAT: bool = true;
    fn token(&self) -> &OwnerToken {
        &self.acquire.token
    }
    fn lease(&self) -> Lease {
        self.acquire.lease
    }
    fn fences(&mut self) -> &mut FenceRequest {
        &mut self.acquire.fences
    }
    fn vote(reply: WatchReply) -> (Vote, bool) {
        match reply.outcome {
            WatchOutcome::Granted(fence) => (Vote::Granted(fence), reply.others_wait),
            WatchOutcome::Busy(busy) => (Vote::Busy(busy), reply.others_wait),
        }
    }
    fn took(reply: &WatchReply) -> bool {
        matches!(reply.outcome, WatchOutcome::Granted(_))
    }
}

impl Takes for Swap {
    const MAY_REPEAT: bool = false;
    fn token(&self) -> &OwnerToken {
        &self.to
    }
    fn lease(&self) -> Lease {
        self.lease
    }
    fn fences(&mut self) -> &mut FenceRequest {
        &mut self.fences
    }
    fn vote(reply: SwapReply) -> (Vote, bool) {
        match reply {
            SwapReply::Swapped(fence) => (Vote::Granted(fence), false),
            SwapReply::HeldByAnother(index, holder) => {
                (Vote::Busy(Busy { index, holder, remaining: None }), false)
            }
            SwapReply::Expired(index) => (Vote::Absent(index), false),
        }
    }
    fn took(reply: &SwapReply) -> bool {
        matches!(reply, SwapReply::Swapped(_))
    }
}

/// What a majority said.
enum Taken {
    Granted(Fence),
    Busy(Busy),
    Absent(usize),
}

/// What all servers have said so far.
#[derive(Default)]
struct Said {
    firsts: Vec<(usize, Fence)>,
    busy: Vec<Busy>,
    absent: Vec<usize>,
    errors: Vec<(usize, Error)>,
    others_wait: bool,
}

/// Requests under way. Dropped before they are settled, everything they took is given back.
struct Flying<D: Takes> {
    shared: Arc<Shared>,
    keys: Keys,
    token: OwnerToken,
    record: u64,
    within: Duration,
    ends: Uptime,
    flight: Flight<D::Reply>,
    outstanding: Nodes,
    is_settled: bool,
}

impl<D: Takes> Flying<D> {
    fn note(&mut self, (node, result): Result1<D::Reply>, said: &mut Said) {
        self.outstanding = self.outstanding.without(node);
        enter(&self.shared, &self.token, self.record, node, Effect::of(&result, self.within, D::took));
        match result {
            Ok(answer) => {
                let (vote, others_wait) = D::vote(answer.reply);
                said.others_wait |= others_wait;
                match vote {
                    Vote::Granted(fence) => said.firsts.push((node, fence)),
                    Vote::Busy(busy) => said.busy.push(busy),
                    Vote::Absent(index) => said.absent.push(index),
                }
            }
            Err(error) => said.errors.push((node, error)),
        }
    }

    /// A majority holds it: what is outstanding may become further votes.
    fn keep(mut self) {
        self.is_settled = true;
        self.follow(None);
    }

    /// Nothing of it is to stay anywhere.
    fn undo(&mut self) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        if let Some(record) = self.shared.ledger.end(&self.token) {
            for node in record.holds.iter().filter(|node| !self.outstanding.has(*node)) {
                let doubt = record.doubt_at(node);
                self.shared.give_back_at(node, &self.keys, &self.token, doubt, self.ends);
            }
        }
        let leaving = (!self.flight.is_empty()).then(|| Leaving::new(&self.shared, &self.token));
        self.follow(leaving);
    }

    /// Waits in the background for what is outstanding. Late answers are votes while the record stands, and given back
    /// once it does not.
    fn follow(&mut self, leaving: Option<Leaving>) {
        let mut flight = std::mem::take(&mut self.flight);
        if flight.is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let (shared, keys, token) = (self.shared.clone(), self.keys.clone(), self.token.clone());
        let (record, within, ends) = (self.record, self.within, self.ends);
        runtime.spawn(async move {
            while let Some((node, result)) = flight.next().await {
                let effect = Effect::of(&result, within, D::took);
                if !enter(&shared, &token, record, node, effect) && effect.holds {
                    shared.give_back_at(node, &keys, &token, effect.doubt, ends);
                }
            }
            drop(leaving);
        });
    }
}

/// Notes at the record what a request did at one server; false if the record has ended.
pub(super) fn enter(shared: &Shared, token: &OwnerToken, record: u64, node: usize, effect: Effect) -> bool {
    shared.ledger.change(token, record, |record| {
        record.holds = if effect.holds { record.holds.with(node) } else { record.holds.without(node) };
        record.doubts.extend(effect.doubt.map(|until| (node, until)));
    })
}

impl<D: Takes> Drop for Flying<D> {
    fn drop(&mut self) {
        self.undo();
    }
}

impl Shared {
    async fn take<D: Takes>(
        self: &Arc<Self>,
        lane: Lane,
        at: &Keys,
        decision: D,
        within: Duration,
    ) -> Result<(Taken, bool), Error> {
        let ends = self.clock.uptime().after(within);
        let named = |error: Error| if error.key().is_some() { error } else { error.with_key(at) };
        self.check_lease(decision.lease(), D::NAME).map_err(named)?;
        self.has_left(decision.token(), within).await;
        self.check_token(decision.token(), D::NAME).map_err(named)?;
        let mut pause = SPLIT_PAUSE;
        for tries in 0.. {
            let left = ends.since(self.clock.uptime());
            let roll = self.voters(D::NAME, left).await.map_err(named)?;
            let (taken, others_wait, is_split) =
                self.round(lane, at, decision.clone(), &roll, left).await.map_err(named)?;
            let paused = pause.mul_f64(rand::random_range(0.0..1.0));
            let has_time = ends.since(self.clock.uptime()) > paused;
            if !is_split || !D::MAY_REPEAT || tries == SPLIT_TRIES || !has_time {
                return Ok((taken, others_wait));
            }
            tokio::time::sleep(paused).await;
            pause *= 2;
        }
        unreachable!("tries end")
    }

    /// Asks everybody once. Also says whether the votes were split, with nothing of ours left anywhere.
    async fn round<D: Takes>(
        self: &Arc<Self>,
        lane: Lane,
        at: &Keys,
        mut decision: D,
        roll: &Roll,
        within: Duration,
    ) -> Result<(Taken, bool, bool), Error> {
        let (now, lease, token) = (self.clock.uptime(), decision.lease(), decision.token().clone());
        let limit = self.node_limit(lease, within);
        let ends = now.after(lease.as_duration()).after(lease.as_duration() / 50).after(limit);
        let block = decision.fences().size();
        if self.fences {
            let fences = decision.fences();
            fences.seen = self.propose(roll, fences.seen);
        }
        let asked = roll.runs.iter().enumerate().filter(|(_, run)| run.is_some());
        let asked = asked.fold(Nodes::default(), |nodes, (node, _)| nodes.with(node));
        let mut flying: Flying<D> = Flying {
            record: self.ledger.begin(&token, asked, now, ends),
            flight: self.send_all(lane, at, &decision, limit, roll),
            shared: self.clone(),
            keys: at.clone(),
            token,
            within: limit,
            ends,
            outstanding: asked,
            is_settled: false,
        };
        let mut said = Said::default();
        while self.majority.count(said.firsts.len(), flying.flight.len()) == Count::Open {
            match flying.flight.next().await {
                Some(answer) => flying.note(answer, &mut said),
                None => break,
            }
        }
        if !self.majority.is_reached(said.firsts.len()) {
            return self.refused(flying, &said, within).await;
        }
        while let Some(Some(answer)) = flying.flight.next().now_or_never() {
            flying.note(answer, &mut said);
        }
        let fence = match self.fences {
            true => {
                let granted = Granted { token: &flying.token, firsts: &said.firsts, block };
                self.agree(lane, at, granted, roll, limit).await
            }
            false => Some(Fence::NONE),
        };
        let Some(fence) = fence else {
            let detail = "a majority granted it, and too few could be told the fence";
            return Err(Error::new(ErrorKind::OutcomeUnknown { not_after: None }, D::NAME, detail));
        };
        let last = fence.get().saturating_add(block - 1);
        self.ledger.change(&flying.token, flying.record, |record| record.last_fence = last);
        flying.keep();
        Ok((Taken::Granted(fence), said.others_wait, false))
    }

    /// A majority is out of reach: everything is given back, and what is in the way is told.
    async fn refused<D: Takes>(
        self: &Arc<Self>,
        mut flying: Flying<D>,
        said: &Said,
        within: Duration,
    ) -> Result<(Taken, bool, bool), Error> {
        let granted = said.firsts.len();
        let has_doubt = granted > 0 || !flying.outstanding.iter().collect::<Vec<_>>().is_empty();
        let has_doubt = has_doubt || said.errors.iter().any(|(_, error)| error.may_have_been_applied());
        flying.undo();
        let (busy, absent) = (said.busy.len(), said.absent.len());
        if let Some(first) = said.absent.first().filter(|_| self.majority.is_reached(absent + busy)) {
            let is_others = self.majority.is_reached(busy);
            let other = said.busy.first().filter(|_| is_others).cloned();
            let taken = other.map_or(Taken::Absent(*first), Taken::Busy);
            return Ok((taken, said.others_wait, false));
        }
        // Had those who were busy been free, it would have been granted.
        if busy > 0 && self.majority.is_reached(granted + busy + flying.outstanding.count()) {
            let (most, holder) = self.in_the_way(granted, &said.busy);
            let mut is_split = granted > 0 && !self.majority.is_reached(most);
            if is_split {
                is_split = self.has_left(&flying.token, flying.within.min(within)).await;
            }
            return Ok((Taken::Busy(holder), said.others_wait, is_split));
        }
        let (nodes, needed) = (self.majority.nodes(), self.majority.needed());
        let words = format!("{granted} of {nodes} servers agreed, and {needed} are needed");
        let error = most_telling(D::NAME, &said.errors, |node| self.name(node), &words);
        match has_doubt && error.kind() != ErrorKind::WrongType {
            true => Err(Error::new(
                ErrorKind::OutcomeUnknown { not_after: None },
                D::NAME,
                format!("{}; what was taken is given back", error.detail()),
            )),
            false => Err(error),
        }
    }

    /// Who is in the way at most servers, at how many, and for how long.
    fn in_the_way(&self, granted: usize, busy: &[Busy]) -> (usize, Busy) {
        let alike = |one: &Busy| busy.iter().filter(|other| other.holder == one.holder).count();
        let most = busy.iter().max_by_key(|one| alike(one));
        let left: Vec<_> = busy.iter().map(|one| one.remaining).collect();
        let soonest = left.iter().flatten().min().copied();
        let remaining = self.majority.free_after(granted, left).or(soonest);
        match most {
            Some(one) => (alike(one), Busy { remaining, ..one.clone() }),
            None => unreachable!("somebody is busy"),
        }
    }

    /// A server, for people.
    pub(super) fn name(&self, node: usize) -> String {
        self.found.lock().get(node).map(|one| one.address.clone()).unwrap_or_default()
    }
}

impl Apply<Acquire> for QuorumStore {
    async fn apply(
        &self,
        at: &Keys,
        decision: Acquire,
        within: Duration,
    ) -> Result<Answer<AcquireReply>, Error> {
        let (taken, _) = self.shared.take(self.lane, at, decision, within).await?;
        Ok(self.shared.answer(match taken {
            Taken::Granted(fence) => AcquireReply::Granted(fence),
            Taken::Busy(busy) => AcquireReply::Busy(busy),
            Taken::Absent(_) => return Err(impossible::<Acquire>()),
        }))
    }
}

impl Apply<Watch> for QuorumStore {
    async fn apply(&self, at: &Keys, decision: Watch, within: Duration) -> Result<Answer<WatchReply>, Error> {
        let (taken, others_wait) = self.shared.take(self.lane, at, decision, within).await?;
        let outcome = match taken {
            Taken::Granted(fence) => WatchOutcome::Granted(fence),
            Taken::Busy(busy) => WatchOutcome::Busy(busy),
            Taken::Absent(_) => return Err(impossible::<Watch>()),
        };
        Ok(self.shared.answer(WatchReply { outcome, others_wait }))
    }
}

impl Apply<Swap> for QuorumStore {
    async fn apply(&self, at: &Keys, decision: Swap, within: Duration) -> Result<Answer<SwapReply>, Error> {
        let from = decision.from.clone();
        let ends = self.shared.clock.uptime().after(decision.lease.as_duration());
        let (taken, _) = self.shared.take(self.lane, at, decision, within).await?;
        Ok(self.shared.answer(match taken {
            Taken::Granted(fence) => {
                self.shared.forget_swapped(at, &from, ends);
                SwapReply::Swapped(fence)
            }
            Taken::Busy(busy) => SwapReply::HeldByAnother(busy.index, busy.holder),
            Taken::Absent(index) => SwapReply::Expired(index),
        }))
    }
}

impl Shared {
    /// Where the old token was not swapped (a server that was away, or late), it is removed.
    fn forget_swapped(self: &Arc<Self>, at: &Keys, from: &OwnerToken, ends: Uptime) {
        let Some(record) = self.ledger.end(from) else { return };
        let roll = self.roll.lock().clone();
        for node in record.holds.iter() {
            let is_asked = roll.runs.get(node).is_some_and(Option::is_some);
            let doubt = record.doubt_at(node);
            if !is_asked || doubt.is_some() {
                self.give_back_at(node, at, from, doubt, ends);
            }
        }
    }
}

fn impossible<D: Port>() -> Error {
    let Malformed(what) = Malformed("an unknown status");
    crate::error::malformed(D::NAME, what)
}
