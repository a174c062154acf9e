//! One try to take a lock, and what happens to it when its future is dropped or its answer never comes.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::{
    Acquire, AcquireReply, Busy as Occupied, Fence, FenceRequest, Lasting, Lease, MAX_FENCE_BLOCK,
    OwnerToken, Renew, RenewReply, Waiter, Watch, WatchOutcome, WatchReply,
};
use lockkeeper_core::{Answer, Error, ErrorKind, Timestamp};
use lockkeeper_redis::Lane;

use super::builder::Lock;
use super::claim::{Claim, Claimed};
use super::give_back::Kind;
use super::outcome::Busy;
use super::tenure::{Grant, Tenure};
use crate::keeper::Inner;

/// So many fences are reserved at least for those who stand in line.
const SMALLEST_BLOCK: u32 = 32;

/// What came of a try.
pub(super) enum Tried {
    Taken(Arc<Tenure>),
    Busy(Busy),
}

/// Tries once, with a fresh token unless the caller has one; see [`Claim`].
pub(super) async fn once(lock: &Lock, lease: Lease, within: Duration) -> Result<Tried, Error> {
    // One fence: whoever waits behind it has reserved more by then, or does so by the first swap.
    let mut try_ = Try::new(lock, lease, 1, within)?;
    let (lock, decision) = (try_.lock, try_.decision());
    let (backend, level) = (&lock.inner.backend, lock.durability);
    let lasting = backend.apply_lasting(level, Lane::Command, &lock.keys, decision, within).await;
    let reply = try_.note_lasting(lasting, "acquire")?;
    try_.conclude(reply)
}

/// The same for a line, as `waiter`: a refusal leaves a note of presence, and has the waiting connection told
/// of changes. Also says whether another keeper waits.
pub(super) async fn watch(
    lock: &Lock,
    lease: Lease,
    waiter: Waiter,
    within: Duration,
) -> Result<(Tried, bool), Error> {
    let (backend, level) = (&lock.inner.backend, lock.durability);
    backend.check_lasting(level, Lane::Waiting, &lock.keys, within).await?;
    let mut try_ = Try::new(lock, lease, block_for(waiter.count), within)?;
    let decision = Watch { acquire: try_.decision(), waiter };
    let answer = backend.apply(Lane::Waiting, &lock.keys, decision, within).await;
    let WatchReply { outcome, others_wait } = try_.note(answer)?.reply;
    let reply = match outcome {
        WatchOutcome::Granted(fence) => {
            try_.confirm(within).await?;
            AcquireReply::Granted(fence)
        }
        WatchOutcome::Busy(busy) => AcquireReply::Busy(busy),
    };
    try_.conclude(reply).map(|tried| (tried, others_wait))
}

/// Two for each who waits: some will come back.
pub(super) fn block_for(waiting: u32) -> u32 {
    waiting.saturating_mul(2).clamp(SMALLEST_BLOCK, MAX_FENCE_BLOCK)
}

/// A try that was made, but not answered yet.
pub(super) struct Try<'a> {
    lock: &'a Lock,
    claim: Claim<'a>,
    lease: Lease,
    block: u32,
}

impl<'a> Try<'a> {
    pub(super) fn new(lock: &'a Lock, lease: Lease, block: u32, within: Duration) -> Result<Self, Error> {
        let claim = Claim::new(&lock.inner, &lock.keys, token(lock)?, Kind::Lock, lease, within);
        // A repeat with a token of the caller's own must find the block that it was granted; and it serves one holder.
        let block = if lock.token.is_some() { 1 } else { block.clamp(1, MAX_FENCE_BLOCK) };
        Ok(Self { lock, claim, lease, block })
    }

    pub(super) fn token(&self) -> &OwnerToken {
        &self.claim.token
    }

    pub(super) fn fences(&self) -> FenceRequest {
        FenceRequest { seen: self.lock.inner.seen_fence(), block: self.block }
    }

    fn decision(&self) -> Acquire {
        let (token, lease) = (self.claim.token.clone(), self.lease);
        Acquire { token, lease, fences: self.fences(), not_after: Timestamp::MAX }
    }

    fn conclude(self, reply: AcquireReply) -> Result<Tried, Error> {
        match reply {
            AcquireReply::Busy(busy) => self.busy(busy),
            AcquireReply::Granted(fence) => self.taken(fence).map(Tried::Taken),
        }
    }

    /// Notes how long the request may still take effect.
    pub(super) fn note<R>(&mut self, answer: Result<Answer<R>, Error>) -> Result<Answer<R>, Error> {
        self.claim.note(answer)
    }

    /// The same for a request that had to last.
    pub(super) fn note_lasting<R>(
        &mut self,
        lasting: Result<Lasting<R>, Error>,
        operation: &'static str,
    ) -> Result<R, Error> {
        self.claim.note_lasting(lasting, operation)
    }

    /// Waits until what was granted on the waiting connection lasts: whoever has a renewal of it has it, too. (Asked for
    /// on that connection, it would hold up everybody who waits.)
    async fn confirm(&self, within: Duration) -> Result<(), Error> {
        let (inner, level) = (&self.lock.inner, self.lock.durability);
        if level.is_accepted() {
            return Ok(());
        }
        let token = self.claim.token.clone();
        let renew = Renew { token, lease: self.lease, not_after: Timestamp::MAX };
        let keys = &self.lock.keys;
        let lasting = inner.backend.apply_lasting(level, Lane::Waiting, keys, renew, within).await?;
        match lasting.reply("acquire").map_err(|error| error.with_key(keys))? {
            RenewReply::Renewed => Ok(()),
            RenewReply::Expired(_) | RenewReply::HeldByAnother(..) => {
                let detail = "the lease ended before enough had it";
                Err(Error::new(ErrorKind::Lost, "acquire", detail).with_key(keys))
            }
        }
    }

    fn busy(self, busy: Occupied) -> Result<Tried, Error> {
        let key = self.lock.keys.at(busy.index).clone();
        self.settle()?;
        Ok(Tried::Busy(Busy { key, holder: busy.holder, remaining: busy.remaining }))
    }

    pub(super) fn taken(self, fence: Fence) -> Result<Arc<Tenure>, Error> {
        self.lock.inner.saw_fence(fence);
        let Claimed { token, sent, in_doubt_until } = self.claim.granted()?;
        let grant = Grant { fence, block: self.block, sent, in_doubt_until };
        Ok(Tenure::new(self.lock, token, self.lease, grant))
    }

    /// It was answered and took nothing, unless an earlier copy is still in doubt. A token of the caller's own that is
    /// being compensated cannot be tried again.
    pub(super) fn settle(self) -> Result<(), Error> {
        match self.claim.refused() {
            not_after @ Some(_) if self.lock.token.is_some() => {
                let detail = "not taken, but an earlier copy of the request is in doubt";
                Err(Error::new(ErrorKind::OutcomeUnknown { not_after }, "acquire", detail)
                    .with_key(&self.lock.keys))
            }
            _ => Ok(()),
        }
    }
}

fn token(lock: &Lock) -> Result<OwnerToken, Error> {
    match &lock.token {
        Some(token) => Ok(token.clone()),
        None => fresh_token(&lock.inner, lock.label.as_deref()),
    }
}

/// A token that nobody has had before.
pub(crate) fn fresh_token(inner: &Inner, label: Option<&str>) -> Result<OwnerToken, Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| {
        Error::new(ErrorKind::Unsupported, "acquire", format!("no random numbers: {error}"))
    })?;
    Ok(OwnerToken::generate(random, &inner.identity.labelled_or_as_is(label), inner.clock.wall()))
}
