//! Swapping: a held lock gets another token, lease and fence without ever being let go of. One round trip.
//!
//! Inside a keeper it goes to a waiting caller to whom the tenure is not as good as one of their own. Between processes
//! it is how a lock that was handed over is taken over.

use std::sync::Arc;

use lockkeeper_core::lock::{Holder, Lease, OwnerToken, Swap, SwapReply};
use lockkeeper_core::{Error, Timestamp};
use lockkeeper_redis::Lane;

use super::attempt::{Try, block_for};
use super::builder::Lock;
use super::give_back::{Doubt, GiveBack};
use super::guard::LockGuard;
use super::held::Held;
use super::outcome::TakenOver;
use super::queue::Baton;
use super::tenure::Tenure;
use crate::telemetry::Way;

/// What came of a swap inside the keeper.
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
    // From here on the old token may be gone: whoever drops this future gives both back.
    baton.disarm();
    let mut both = Both { from: &from, armed: true };
    match exchange(lock, lease, from.token.clone(), block).await {
        Ok(Exchanged::Taken(tenure)) => {
            both.armed = false;
            from.was_swapped(&tenure);
            lock.class.handed_over(Way::Swap);
            Ok(tenure.first_holder(lock).map_or(Swapped::Lost, Swapped::Held))
        }
        Ok(Exchanged::Expired | Exchanged::HeldByAnother(_)) => Ok(Swapped::Lost),
        // Released, also where the server refused: passed on, it would go round among those who need a swap.
        Err(error) => Err(error),
    }
}

/// Takes over what `from` holds.
pub(super) async fn take_over(lock: &Lock, lease: Lease, from: &OwnerToken) -> Result<TakenOver, Error> {
    if lock.token.as_ref() == Some(from) {
        return Err(Error::bad_argument("take over", "the new token is the old one").with_key(&lock.keys));
    }
    let mut handed = Handed { lock, lease, from, armed: true };
    let exchanged = exchange(lock, lease, from.clone(), 1).await;
    handed.armed = exchanged.as_ref().is_err_and(Error::may_have_been_applied);
    Ok(match exchanged? {
        Exchanged::Taken(tenure) => {
            lock.class.handed_over(Way::Process);
            let held = tenure.first_holder(lock);
            held.map_or(TakenOver::Expired, |held| TakenOver::Held(LockGuard::new(held)))
        }
        Exchanged::Expired => TakenOver::Expired,
        Exchanged::HeldByAnother(holder) => TakenOver::HeldByAnother(holder),
    })
}

enum Exchanged {
    Taken(Arc<Tenure>),
    Expired,
    HeldByAnother(Holder),
}

/// One swap from `from` to a fresh token, which is given back if the answer does not come.
async fn exchange(lock: &Lock, lease: Lease, from: OwnerToken, block: u32) -> Result<Exchanged, Error> {
    let within = lock.inner.response_timeout;
    let mut try_ = Try::new(lock, lease, block, within)?;
    let (to, fences) = (try_.token().clone(), try_.fences());
    let decision = Swap { from, to, lease, fences, not_after: Timestamp::MAX };
    let (backend, level) = (&lock.inner.backend, lock.durability);
    let lasting = backend.apply_lasting(level, Lane::Command, &lock.keys, decision, within).await;
    match try_.note_lasting(lasting, "swap")? {
        SwapReply::Swapped(fence) => try_.taken(fence).map(Exchanged::Taken),
        SwapReply::Expired(_) => {
            try_.settle()?;
            Ok(Exchanged::Expired)
        }
        SwapReply::HeldByAnother(_, holder) => {
            try_.settle()?;
            Ok(Exchanged::HeldByAnother(holder))
        }
    }
}

/// The tenure that is swapped. Dropped while armed, it is over, and given back.
struct Both<'a> {
    from: &'a Arc<Tenure>,
    armed: bool,
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.from.give_back();
        }
    }
}

/// The token that another process handed over. Dropped while armed, it is given back.
struct Handed<'a> {
    lock: &'a Lock,
    lease: Lease,
    from: &'a OwnerToken,
    armed: bool,
}

impl Drop for Handed<'_> {
    fn drop(&mut self) {
        if self.armed {
            let inner = &self.lock.inner;
            let give_up = inner.clock.uptime().after(inner.response_timeout).after(self.lease.as_duration());
            let (keys, from) = (self.lock.keys.clone(), self.from.clone());
            inner.give_back(GiveBack::new(keys, from, Doubt::None, give_up));
        }
    }
}
