//! One try to take a lock, and what happens to it when its future is dropped or its answer never comes.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::{
    Acquire, AcquireReply, Busy as Occupied, Fence, FenceRequest, Lease, MAX_FENCE_BLOCK, OwnerToken, Waiter,
    Watch, WatchOutcome,
};
use lockkeeper_core::{Answer, Error, ErrorKind, Timestamp, Uptime};
use lockkeeper_redis::Lane;

use super::builder::Lock;
use super::give_back::{Doubt, GiveBack};
use super::outcome::Busy;
use super::tenure::{Grant, Tenure};

/// So many fences are reserved at least for those who stand in line.
const SMALLEST_BLOCK: u32 = 32;

/// What came of a try.
pub(super) enum Tried {
    Taken(Arc<Tenure>),
    Busy(Busy),
}

/// Tries once with a fresh token.
///
/// Invariants 5 and 8: whatever may have been taken and is not held is given back in the background, and its token
/// is never used again.
pub(super) async fn once(lock: &Lock, lease: Lease, within: Duration) -> Result<Tried, Error> {
    // One fence: whoever waits behind it has reserved more by then, or does so by the first swap.
    let try_ = Try::new(lock, lease, 1, within)?;
    let (lock, decision) = (try_.lock, try_.decision());
    let answer = lock.inner.backend.apply(Lane::Command, &lock.keys, decision, within).await;
    try_.conclude(answer)
}

/// The same for a line, as `waiter`: a refusal leaves a note of presence, and has the waiting connection told
/// of changes. Also says whether another keeper waits.
pub(super) async fn watch(
    lock: &Lock,
    lease: Lease,
    waiter: Waiter,
    within: Duration,
) -> Result<(Tried, bool), Error> {
    let try_ = Try::new(lock, lease, block_for(waiter.count), within)?;
    let decision = Watch { acquire: try_.decision(), waiter };
    let answer = lock.inner.backend.apply(Lane::Waiting, &lock.keys, decision, within).await;
    let others_wait = answer.as_ref().is_ok_and(|answer| answer.reply.others_wait);
    let answer = answer.map(|answer| {
        answer.map(|reply| match reply.outcome {
            WatchOutcome::Granted(fence) => AcquireReply::Granted(fence),
            WatchOutcome::Busy(busy) => AcquireReply::Busy(busy),
        })
    });
    try_.conclude(answer).map(|tried| (tried, others_wait))
}

/// Two for each who waits: some will come back.
pub(super) fn block_for(waiting: u32) -> u32 {
    waiting.saturating_mul(2).clamp(SMALLEST_BLOCK, MAX_FENCE_BLOCK)
}

/// A token that the server may hold and nobody owns yet. Dropped while armed, it is given back.
pub(super) struct Try<'a> {
    lock: &'a Lock,
    pub(super) token: OwnerToken,
    lease: Lease,
    block: u32,
    within: Duration,
    sent: Uptime,
    not_after: Option<Timestamp>,
    armed: bool,
}

impl<'a> Try<'a> {
    pub(super) fn new(lock: &'a Lock, lease: Lease, block: u32, within: Duration) -> Result<Self, Error> {
        let (token, sent) = (token(lock)?, lock.inner.clock.uptime());
        // A repeat with a token of the caller's own must find the block that it was granted; and it serves one holder.
        let block = if lock.token.is_some() { 1 } else { block.clamp(1, MAX_FENCE_BLOCK) };
        Ok(Self { lock, token, lease, block, within, sent, not_after: None, armed: true })
    }

    pub(super) fn fences(&self) -> FenceRequest {
        FenceRequest { seen: self.lock.inner.seen_fence(), block: self.block }
    }

    fn decision(&self) -> Acquire {
        let (token, lease) = (self.token.clone(), self.lease);
        Acquire { token, lease, fences: self.fences(), not_after: Timestamp::MAX }
    }

    fn conclude(mut self, answer: Result<Answer<AcquireReply>, Error>) -> Result<Tried, Error> {
        let answer = self.note(answer)?;
        match answer.reply {
            AcquireReply::Busy(busy) => self.busy(busy),
            AcquireReply::Granted(fence) => self.taken(fence).map(Tried::Taken),
        }
    }

    /// Notes how long the request may still take effect.
    pub(super) fn note<R>(&mut self, answer: Result<Answer<R>, Error>) -> Result<Answer<R>, Error> {
        match &answer {
            // An earlier copy of the request may still be on its way; it takes nothing after this.
            Ok(answer) => self.not_after = (answer.sent > 1).then(|| answer.at.after(self.within)),
            Err(error) => match error.kind() {
                ErrorKind::OutcomeUnknown { not_after } => self.not_after = not_after,
                _ if error.may_have_been_applied() => {}
                _ => self.armed = false,
            },
        }
        answer
    }

    fn busy(self, busy: Occupied) -> Result<Tried, Error> {
        let key = self.lock.keys.at(busy.index).clone();
        self.settle()?;
        Ok(Tried::Busy(Busy { key, holder: busy.holder, remaining: busy.remaining }))
    }

    pub(super) fn taken(mut self, fence: Fence) -> Result<Arc<Tenure>, Error> {
        let (inner, sent) = (&self.lock.inner, self.sent);
        inner.saw_fence(fence);
        if inner.clock.uptime() >= self.lease.deadline(sent) {
            return Err(Error::new(ErrorKind::Lost, "acquire", "the lease ended before the answer came")
                .with_key(&self.lock.keys));
        }
        self.armed = false;
        let grant = Grant { fence, block: self.block, sent, in_doubt_until: self.not_after };
        Ok(Tenure::new(self.lock, self.token.clone(), self.lease, grant))
    }

    /// It was answered and took nothing, unless an earlier copy is still in doubt. A token of the caller's own that is
    /// being compensated cannot be tried again.
    pub(super) fn settle(mut self) -> Result<(), Error> {
        self.armed = self.not_after.is_some();
        if self.armed && self.lock.token.is_some() {
            let kind = ErrorKind::OutcomeUnknown { not_after: self.not_after };
            let detail = "not taken, but an earlier copy of the request is in doubt";
            return Err(Error::new(kind, "acquire", detail).with_key(&self.lock.keys));
        }
        Ok(())
    }
}

fn token(lock: &Lock) -> Result<OwnerToken, Error> {
    if let Some(token) = &lock.token {
        return Ok(token.clone());
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| {
        Error::new(ErrorKind::Unsupported, "acquire", format!("no random numbers: {error}"))
    })?;
    let identity = lock.inner.identity.labelled_or_as_is(lock.label.as_deref());
    Ok(OwnerToken::generate(random, &identity, lock.inner.clock.wall()))
}

impl Drop for Try<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let inner = &self.lock.inner;
        // A future that was dropped: the store stamped no later than what was left of the limit from now on.
        let not_after =
            self.not_after.or_else(|| inner.backend.server_now().map(|now| now.after(self.within)));
        let doubt = not_after.map_or(Doubt::For(self.within), Doubt::Until);
        let give_up =
            inner.clock.uptime().after(self.within).after(self.within).after(self.lease.as_duration());
        inner.give_back(GiveBack::new(self.lock.keys.clone(), self.token.clone(), doubt, give_up));
    }
}
