//! One try to take a lock, and what happens to it when its future is dropped or its answer never comes.

use std::time::Duration;

use lockkeeper_core::lock::{Acquire, AcquireReply, FenceRequest, Lease, OwnerToken};
use lockkeeper_core::{Error, ErrorKind, Timestamp};
use lockkeeper_redis::Lane;

use super::builder::Lock;
use super::give_back::{Doubt, GiveBack};
use super::guard::LockGuard;
use super::held::Held;
use super::outcome::{Acquired, Busy};

/// Whether somebody has waited for this try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Try {
    First,
    Poll,
}

/// Sends one acquire with a fresh token.
///
/// Invariants 5 and 8: whatever may have been taken and is not held is given back in the background, and its token
/// is never used again.
pub(super) async fn once(lock: &Lock, lease: Lease, kind: Try, within: Duration) -> Result<Acquired, Error> {
    let inner = &lock.inner;
    let token = token(lock)?;
    let mut in_flight = InFlight { lock, token, lease, not_after: None, within, armed: true };
    let lane = if kind == Try::First { Lane::Command } else { Lane::Waiting };
    let fences = FenceRequest { seen: inner.seen_fence(), block: 1 };
    let decision = Acquire { token: in_flight.token.clone(), lease, fences, not_after: Timestamp::MAX };
    let sent = inner.clock.uptime();
    let answer = match inner.backend.apply(lane, &lock.keys, decision, within).await {
        Ok(answer) => answer,
        Err(error) => {
            match error.kind() {
                ErrorKind::OutcomeUnknown { not_after } => in_flight.not_after = not_after,
                _ if error.may_have_been_applied() => {}
                _ => in_flight.disarm(),
            }
            return Err(error);
        }
    };
    // An earlier copy of the request may still be on its way; it takes nothing after this.
    let in_doubt_until = (answer.sent > 1).then(|| answer.at.after(within));
    in_flight.not_after = in_doubt_until;
    match answer.reply {
        AcquireReply::Busy(busy) => {
            match in_doubt_until {
                None => in_flight.disarm(),
                // A token of the caller's own that is being compensated cannot be tried again.
                not_after if lock.token.is_some() => {
                    let kind = ErrorKind::OutcomeUnknown { not_after };
                    let detail = "busy, but an earlier copy of the request is in doubt";
                    return Err(Error::new(kind, "acquire", detail).with_key(&lock.keys));
                }
                _ => {}
            }
            let key = lock.keys.at(busy.index).clone();
            Ok(Acquired::Busy(Busy { key, holder: busy.holder, remaining: busy.remaining }))
        }
        AcquireReply::Granted(fence) => {
            inner.saw_fence(fence);
            if inner.clock.uptime() >= lease.deadline(sent) {
                return Err(Error::new(ErrorKind::Lost, "acquire", "the lease ended before the answer came")
                    .with_key(&lock.keys));
            }
            in_flight.disarm();
            let held = Held::new(
                inner.clone(),
                lock.keys.clone(),
                in_flight.token.clone(),
                fence,
                lease,
                lock.terms,
                sent,
                in_doubt_until,
            );
            Ok(Acquired::Held(LockGuard::new(held)))
        }
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
    let identity = lock.identity.as_ref().unwrap_or(&lock.inner.identity);
    Ok(OwnerToken::generate(random, identity, lock.inner.clock.wall()))
}

/// A token that the server may hold and nobody owns yet. Dropped while armed, it is given back.
struct InFlight<'a> {
    lock: &'a Lock,
    token: OwnerToken,
    lease: Lease,
    not_after: Option<Timestamp>,
    within: Duration,
    armed: bool,
}

impl InFlight<'_> {
    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for InFlight<'_> {
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
