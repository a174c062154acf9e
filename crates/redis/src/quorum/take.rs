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
/// And so often where somebody may have a majority with servers that did not answer.
const UNSEEN_TRIES: u32 = 1;
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
    /// Whoever waits asks those first who said last that somebody has it, and the others when one of them is free.
    const LOOKS_FIRST: bool = false;
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
    const LOOKS_FIRST: bool = true;
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
    /// And by whom so far.
    Granted(Fence, Nodes),
    Busy(Busy),
    Absent(usize),
}

/// What all servers have said so far.
#[derive(Default)]
struct Said {
    firsts: Vec<(usize, Fence)>,
    busy: Vec<(usize, Busy)>,
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
    /// Not asked yet.
    rest: Nodes,
    is_settled: bool,
}

impl<D: Takes> Flying<D> {
    /// Those who were left out until one of the others was free.
    fn ask_the_rest(&mut self, lane: Lane, decision: &D, roll: &Roll) {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return;
        }
        let is_noted = self.shared.ledger.change(&self.token, self.record, |record| {
            record.holds = rest.iter().fold(record.holds, Nodes::with);
        });
        if is_noted {
            self.outstanding = rest.iter().fold(self.outstanding, Nodes::with);
            let (shared, keys) = (self.shared.clone(), self.keys.clone());
            self.flight.extend(shared.send_to(rest, lane, &keys, decision, self.within, roll));
        }
    }

    fn note(&mut self, (node, result): Result1<D::Reply>, said: &mut Said) {
        self.outstanding = self.outstanding.without(node);
        enter(&self.shared, &self.token, self.record, node, Effect::of(&result, self.within, D::took));
        match result {
            Ok(answer) => {
                let (vote, others_wait) = D::vote(answer.reply);
                said.others_wait |= others_wait;
                match vote {
                    Vote::Granted(fence) => said.firsts.push((node, fence)),
                    Vote::Busy(busy) => said.busy.push((node, busy)),
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

    /// Waits in the background for what is outstanding.
    fn follow(&mut self, leaving: Option<Leaving>) {
        let flight = std::mem::take(&mut self.flight);
        if flight.is_empty() {
            return;
        }
        let late = Late::<D> {
            shared: self.shared.clone(),
            keys: self.keys.clone(),
            token: self.token.clone(),
            record: self.record,
            within: self.within,
            ends: self.ends,
            flight,
            outstanding: self.outstanding,
            _leaving: leaving,
        };
        // Where the requests are: on the runtime that drives their connections.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(late.run());
        }
    }
}

/// Answers that come late: votes while the record stands, and given back once it does not. Dropped before they came,
/// because their runtime has ended, they are treated as unknown.
struct Late<D: Takes> {
    shared: Arc<Shared>,
    keys: Keys,
    token: OwnerToken,
    record: u64,
    within: Duration,
    ends: Uptime,
    flight: Flight<D::Reply>,
    outstanding: Nodes,
    _leaving: Option<Leaving>,
}

impl<D: Takes> Late<D> {
    async fn run(mut self) {
        while let Some((node, result)) = self.flight.next().await {
            self.outstanding = self.outstanding.without(node);
            self.note(node, Effect::of(&result, self.within, D::took));
        }
    }

    fn note(&self, node: usize, effect: Effect) {
        if !enter(&self.shared, &self.token, self.record, node, effect) && effect.holds {
            self.shared.give_back_at(node, &self.keys, &self.token, effect.doubt, self.ends);
        }
    }
}

impl<D: Takes> Drop for Late<D> {
    fn drop(&mut self) {
        for node in self.outstanding.iter() {
            let doubt = self.shared.doubt_of_abandoned(node, self.within);
            self.note(node, Effect { holds: true, doubt });
        }
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
            let (taken, others_wait, more) =
                self.round(lane, at, decision.clone(), &roll, left).await.map_err(named)?;
            let paused = pause.mul_f64(rand::random_range(0.0..1.0));
            let has_time = ends.since(self.clock.uptime()) > paused;
            if !D::MAY_REPEAT || tries >= more || !has_time {
                return Ok((taken, others_wait));
            }
            tokio::time::sleep(paused).await;
            pause *= 2;
        }
        unreachable!("tries end")
    }

    /// Asks everybody once. Also says how often it may be asked again because votes were split, with nothing of ours left
    /// anywhere.
    async fn round<D: Takes>(
        self: &Arc<Self>,
        lane: Lane,
        at: &Keys,
        mut decision: D,
        roll: &Roll,
        within: Duration,
    ) -> Result<(Taken, bool, u32), Error> {
        let (now, lease, token) = (self.clock.uptime(), decision.lease(), decision.token().clone());
        let limit = self.node_limit(lease, within);
        let ends = now.after(lease.as_duration()).after(lease.as_duration() / 50).after(limit);
        let block = decision.fences().size();
        if self.fences {
            let fences = decision.fences();
            fences.seen = self.propose(roll, fences.seen);
        }
        let voters = roll.voters();
        let asked = self.asked_first::<D>(at, voters);
        let mut flying: Flying<D> = Flying {
            record: self.ledger.begin(&token, asked, now, ends),
            flight: self.send_to(asked, lane, at, &decision, limit, roll),
            shared: self.clone(),
            keys: at.clone(),
            token,
            within: limit,
            ends,
            outstanding: asked,
            rest: voters.minus(asked),
            is_settled: false,
        };
        let mut said = Said::default();
        let open = |flying: &Flying<D>| flying.flight.len() + flying.rest.count();
        while self.majority.count(said.firsts.len(), open(&flying)) == Count::Open {
            if !said.firsts.is_empty() || flying.flight.is_empty() {
                flying.ask_the_rest(lane, &decision, roll);
            }
            match flying.flight.next().await {
                Some(answer) => flying.note(answer, &mut said),
                None => break,
            }
        }
        if !said.firsts.is_empty() {
            self.views.forget(at);
        }
        if !self.majority.is_reached(said.firsts.len()) {
            return self.refused(flying, &said, within).await;
        }
        flying.ask_the_rest(lane, &decision, roll);
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
        let by = said.firsts.iter().fold(Nodes::default(), |nodes, (node, _)| nodes.with(*node));
        Ok((Taken::Granted(fence, by), said.others_wait, 0))
    }

    /// Whom to ask at once: all, unless the last word was that somebody else has a majority, or may have one with those that
    /// do not vote.
    fn asked_first<D: Takes>(&self, at: &Keys, voters: Nodes) -> Nodes {
        let held = self.views.held_at(at).filter(|_| D::LOOKS_FIRST).map(|held| held.and(voters));
        let unseen = self.nodes.len() - voters.count();
        held.filter(|held| self.majority.is_reached(held.count() + unseen)).unwrap_or(voters)
    }

    /// A majority is out of reach: everything is given back, and what is in the way is told.
    async fn refused<D: Takes>(
        self: &Arc<Self>,
        mut flying: Flying<D>,
        said: &Said,
        within: Duration,
    ) -> Result<(Taken, bool, u32), Error> {
        let granted = said.firsts.len();
        let has_doubt = granted > 0 || !flying.outstanding.is_empty();
        let has_doubt = has_doubt || said.errors.iter().any(|(_, error)| error.may_have_been_applied());
        let unheard = flying.outstanding.count() + flying.rest.count();
        flying.undo();
        let (busy, absent) = (said.busy.len(), said.absent.len());
        if let Some(first) = said.absent.first().filter(|_| self.majority.is_reached(absent + busy)) {
            let is_others = self.majority.is_reached(busy);
            let other = said.busy.first().filter(|_| is_others).map(|(_, busy)| busy.clone());
            let taken = other.map_or(Taken::Absent(*first), Taken::Busy);
            return Ok((taken, said.others_wait, 0));
        }
        // Had those who were busy been free, it would have been granted.
        // A swap is told of others only where they have a majority: its own token holds some of these.
        let is_enough = if D::MAY_REPEAT { granted + busy + unheard } else { busy };
        if busy > 0 && self.majority.is_reached(is_enough) {
            let (most, holder) = self.in_the_way(granted, &said.busy);
            let silent = self.nodes.len() - granted - busy - absent;
            let may_be_held = self.majority.is_reached(most.count() + silent);
            if may_be_held {
                self.views.is_held_at(&flying.keys, most);
            }
            let more = match (granted > 0, may_be_held) {
                (false, _) => 0,
                (true, _) if self.majority.is_reached(most.count()) => 0,
                (true, true) => UNSEEN_TRIES,
                (true, false) => SPLIT_TRIES,
            };
            let has_left = more == 0 || self.has_left(&flying.token, flying.within.min(within)).await;
            return Ok((Taken::Busy(holder), said.others_wait, if has_left { more } else { 0 }));
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
    fn in_the_way(&self, granted: usize, busy: &[(usize, Busy)]) -> (Nodes, Busy) {
        let alike = |one: &Busy| {
            let all = busy.iter().filter(|(_, other)| other.holder == one.holder);
            all.fold(Nodes::default(), |nodes, (node, _)| nodes.with(*node))
        };
        let most = busy.iter().map(|(_, one)| one).max_by_key(|one| alike(one).count());
        let left: Vec<_> = busy.iter().map(|(_, one)| one.remaining).collect();
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
            Taken::Granted(fence, _) => AcquireReply::Granted(fence),
            Taken::Busy(busy) => AcquireReply::Busy(busy),
            Taken::Absent(_) => return Err(impossible::<Acquire>()),
        }))
    }
}

impl Apply<Watch> for QuorumStore {
    async fn apply(&self, at: &Keys, decision: Watch, within: Duration) -> Result<Answer<WatchReply>, Error> {
        let (taken, others_wait) = self.shared.take(self.lane, at, decision, within).await?;
        let outcome = match taken {
            Taken::Granted(fence, _) => WatchOutcome::Granted(fence),
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
            Taken::Granted(fence, by) => {
                self.shared.forget_swapped(at, &from, by, ends);
                SwapReply::Swapped(fence)
            }
            Taken::Busy(busy) => SwapReply::HeldByAnother(busy.index, busy.holder),
            Taken::Absent(index) => SwapReply::Expired(index),
        }))
    }
}

impl Shared {
    /// Where the old token was not swapped (a server that was away, or late), it is removed.
    fn forget_swapped(self: &Arc<Self>, at: &Keys, from: &OwnerToken, by: Nodes, ends: Uptime) {
        let Some(record) = self.ledger.end(from) else { return };
        for node in record.holds.iter() {
            let doubt = record.doubt_at(node);
            if !by.has(node) || doubt.is_some() {
                self.give_back_at(node, at, from, doubt, ends);
            }
        }
    }
}

fn impossible<D: Port>() -> Error {
    let Malformed(what) = Malformed("an unknown status");
    crate::error::malformed(D::NAME, what)
}
