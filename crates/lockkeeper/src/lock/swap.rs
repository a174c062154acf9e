//! Swapping a tenure of this keeper for one of a waiting caller's own: another token, lease or label, or fences anew,
//! without ever letting go of the lock. One round trip.

use std::sync::Arc;

use lockkeeper_core::lock::{Lease, Swap, SwapReply};
use lockkeeper_core::{Error, Timestamp};
use lockkeeper_redis::Lane;

use super::attempt::{Try, block_for};
use super::builder::Lock;
use super::held::Held;
use super::queue::Baton;
use super::tenure::Tenure;

/// What came of a swap.
pub(super) enum Swapped {
    Held(Arc<Held>),
    /// The tenure was lost before.
    Lost,
}

/// Swaps `baton`'s tenure for a fresh one.
///
/// Without an answer neither side holds: both tokens are given back. Dropped before it is sent, the baton goes on.
pub(super) async fn swap(lock: &Lock, lease: Lease, mut baton: Baton) -> Result<Swapped, Error> {
    let inner = &lock.inner;
    let Some(from) = baton.tenure().filter(|from| from.can_be_passed(inner.clock.uptime())).cloned() else {
        return Ok(Swapped::Lost);
    };
    let waiting = u32::try_from(inner.queues.waiting_for(&lock.keys)).unwrap_or(u32::MAX);
    let block = from.block().saturating_mul(2).max(block_for(waiting));
    let mut try_ = Try::new(lock, lease, block, inner.response_timeout)?;
    let decision = Swap {
        from: from.token.clone(),
        to: try_.token.clone(),
        lease,
        fences: try_.fences(),
        not_after: Timestamp::MAX,
    };
    // From here on the old token may be gone: whoever drops this future gives both back.
    baton.disarm();
    let mut both = Both { from: &from, armed: true };
    let answer = inner.backend.apply(Lane::Command, &lock.keys, decision, inner.response_timeout).await;
    let answer = try_.note(answer).inspect_err(|error| {
        if !error.may_have_been_applied() {
            both.pass_on();
        }
    })?;
    match answer.reply {
        SwapReply::Swapped(fence) => {
            both.armed = false;
            let tenure = try_.taken(fence);
            from.was_swapped(tenure.as_ref().ok());
            let tenure = tenure?;
            Ok(tenure.first_holder(lock).map_or(Swapped::Lost, Swapped::Held))
        }
        SwapReply::Expired(_) | SwapReply::HeldByAnother(..) => try_.settle().map(|()| Swapped::Lost),
    }
}

/// The tenure that is swapped. Dropped while armed, it is over, and given back.
struct Both<'a> {
    from: &'a Arc<Tenure>,
    armed: bool,
}

impl Both<'_> {
    /// The server refused: it is still this keeper's.
    fn pass_on(&mut self) {
        self.armed = !self.from.pass_on();
    }
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.from.give_back();
        }
    }
}
