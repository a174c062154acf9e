//! The guard: what a holder holds.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_core::lock::{Fence, Inspect, Lease, OwnerToken, Release, ReleaseReply, Renew, RenewReply};
use lockkeeper_core::{Error, ErrorKind, Timestamp};
use lockkeeper_redis::Lane;

use super::held::Held;
use super::outcome::{Extended, LossReason, Released};
use crate::telemetry::Reason;
use crate::telemetry::events::Of;

/// A held lock. Clones share it inside this process; the last one to be dropped releases it in the background.
///
/// Ownership is the guard, never the thread or the task. Give the [`fence`](Self::fence) to the resource, look at
/// [`is_valid`](Self::is_valid) before each irreversible step, and prefer the explicit [`release`](Self::release).
#[derive(Clone)]
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard {
    held: Arc<Held>,
}

impl LockGuard {
    pub(super) fn new(held: Arc<Held>) -> Self {
        Self { held }
    }

    /// The fencing token: greater than that of every earlier holder.
    ///
    /// # Errors
    /// *Not supported here*: the store cannot fence, so there is none to give to a resource.
    pub fn fence(&self) -> Result<Fence, Error> {
        let fence = self.held.fence;
        if fence.is_none() {
            let detail = "this store gives no fences as it is set up";
            return Err(Error::new(ErrorKind::Unsupported, "fence", detail).with_key(&self.held.tenure.keys));
        }
        Ok(fence)
    }

    /// The lease has not ended by this process's own clock, and nothing else is known against it.
    ///
    /// It errs on the safe side: it turns false before the server would let anyone else in, also after a suspend. A
    /// paused *virtual machine* is seen by no clock inside it; the fence is for that. Costs no round trip.
    pub fn is_valid(&self) -> bool {
        self.held.is_valid()
    }

    /// How long it is valid without another renewal; zero when it is not.
    pub fn remaining(&self) -> Duration {
        if self.held.is_held() {
            self.held.tenure.deadline().since(self.held.inner().clock.uptime())
        } else {
            Duration::ZERO
        }
    }

    /// Waits until the guard is no longer valid, and says why. A wanted release is the reason `Released`. Costs no
    /// round trip.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn lost(&self) -> LossReason {
        self.held.ended().await
    }

    /// Why it is no longer valid, if something ended it.
    pub fn loss(&self) -> Option<LossReason> {
        self.held.reason()
    }

    /// The secret that proves ownership. Give it only to who may release. From then on the lock is not passed on
    /// inside this process: whoever has the token could release it under the next holder.
    ///
    /// Once the lock was passed on inside this process, a token without a secret: the right to nothing.
    pub fn token(&self) -> &OwnerToken {
        self.held.token()
    }

    /// The keys, as displayed.
    pub fn key(&self) -> String {
        self.held.tenure.keys.to_string()
    }

    /// The length of the lease that was asked for.
    pub fn lease(&self) -> Duration {
        self.held.tenure.lease.as_duration()
    }

    /// Lengthens the lease to `length` from now. A lease that already runs for longer is not shortened.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip.
    ///
    /// # Errors
    /// Length zero or out of bounds; released, handed over or ended by a bound before; lost while the server keeps it for
    /// a moment longer; refused; unreachable; outcome unknown, or not as durable as the lock asked for (then the guard counts
    /// on the old lease).
    ///
    /// # Cancel safety
    /// The server's lease may have been lengthened; the guard counts on the old one.
    pub async fn extend(&self, length: Duration) -> Result<Extended, Error> {
        let held = &self.held;
        let lease = Lease::new(length).map_err(|error| error.with_key(&held.tenure.keys))?;
        match held.reason() {
            None => {}
            Some(reason) if reason.is_by_time() => return self.look_after_loss(&reason).await,
            Some(reason) => return Err(self.lost_error("extend", &reason)),
        }
        if lease > held.tenure.lease {
            held.tenure.is_stretched.store(true, Ordering::Release);
        }
        let decision = Renew { token: held.tenure.token.clone(), lease, not_after: Timestamp::MAX };
        let (sent, term) = (held.inner().clock.uptime(), held.tenure.term());
        let (inner, keys, level) = (held.inner(), &held.tenure.keys, held.tenure.durability);
        let within = inner.response_timeout;
        let lasting = inner.backend.apply_lasting(level, Lane::Command, keys, decision, within).await?;
        Ok(match lasting.reply("extend").map_err(|error| error.with_key(keys))? {
            RenewReply::Renewed => {
                self.check_held("extend")?;
                held.tenure.prolong(lease, sent, term);
                Extended::Extended
            }
            RenewReply::Expired(_) => {
                held.tenure.lose_as_absent();
                Extended::Expired
            }
            RenewReply::HeldByAnother(_, holder) => {
                held.tenure.lose_to(holder.clone());
                Extended::HeldByAnother(holder)
            }
        })
    }

    /// Who holds it, now that this guard does not: whether the deadline was noticed before the call or by it makes no
    /// difference to the answer.
    async fn look_after_loss(&self, reason: &LossReason) -> Result<Extended, Error> {
        let tenure = &self.held.tenure;
        let (keys, within) = (&tenure.keys, tenure.inner.response_timeout);
        let seen = tenure.inner.backend.apply(Lane::Command, keys, Inspect, within).await?.reply;
        let mine = tenure.token.holder();
        let mut holders = seen.into_iter().map(|seen| seen.holder);
        match holders.find(|holder| holder.as_ref() != Some(&mine)) {
            Some(Some(other)) => Ok(Extended::HeldByAnother(other)),
            Some(None) => Ok(Extended::Expired),
            // The server keeps it for a moment longer than the guard counts on.
            None => Err(self.lost_error("extend", reason)),
        }
    }

    /// Lets go of the lock without releasing it, for another process to
    /// [take over](crate::Lock::take_over) with the returned token. From now on nothing renews it: it must be taken
    /// over before its lease ends, and whoever has the token may release it. Costs no round trip.
    ///
    /// # Errors
    /// Lost before.
    pub fn hand_over(self) -> Result<OwnerToken, Error> {
        let held = &self.held;
        self.check_held("hand over")?;
        if let not_after @ Some(_) = held.tenure.in_doubt_until() {
            // Compensating for that copy could take the lock from whoever took it over.
            let detail = "a second copy of its acquire may still be under way";
            return Err(Error::new(ErrorKind::OutcomeUnknown { not_after }, "hand over", detail)
                .with_key(&held.tenure.keys));
        }
        if !held.is_valid() || !held.end(LossReason::HandedOver) {
            return Err(self.lost_error("hand over", &held.reason().unwrap_or(LossReason::Expired)));
        }
        held.settle();
        held.tenure.let_go();
        Ok(held.tenure.token.clone())
    }

    /// Gives the lock back, for all clones of this guard. Releasing twice is harmless.
    ///
    /// Where somebody of this keeper waits for it, it is theirs at once, without a round trip; see
    /// [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip. Inside: `TIME`, and a `GET` and a `DEL` per key. None where it was passed on.
    ///
    /// # Errors
    /// The server refused, or is unreachable: it is tried again in the background until the lease has ended.
    ///
    /// # Cancel safety
    /// It is released in the background.
    pub async fn release(self) -> Result<Released, Error> {
        let held = &self.held;
        let now = held.inner().clock.uptime();
        let was_valid = held.is_held() && now < held.tenure.deadline();
        if !held.end(LossReason::Released) {
            match held.reason() {
                Some(LossReason::Released) => return Ok(Released::Released),
                // Somebody else has the care for it.
                Some(reason @ LossReason::HandedOver) => return Err(self.lost_error("release", &reason)),
                _ => {}
            }
        }
        let is_ours = held.settle() && was_valid;
        if is_ours && held.tenure.pass_on(now) {
            held.report_release(Reason::None, now);
            return Ok(Released::Released);
        }
        held.tenure.retire();
        let result = self.release_on_server(was_valid).await;
        // Only now, so that who waits here does not run against the release.
        held.tenure.close();
        held.report_release(result.as_ref().map_or_else(Reason::from, Reason::from), now);
        result
    }

    async fn release_on_server(&self, was_valid: bool) -> Result<Released, Error> {
        let held = &self.held;
        let mut undone = Undone { held, armed: true };
        let decision = Release { token: held.tenure.token.clone() };
        let answer = match held
            .inner()
            .backend
            .apply(Lane::Command, &held.tenure.keys, decision, held.inner().response_timeout)
            .await
        {
            Ok(answer) => answer,
            Err(error) if error.is_outcome_unknown() => return Ok(Released::Unknown),
            Err(error) => return Err(error),
        };
        undone.armed = false;
        held.tenure.was_released();
        Ok(match answer.reply {
            // The first copy's answer was lost, and it did it: the lease was running all the while.
            ReleaseReply::Expired(_)
                if answer.sent > 1 && was_valid && held.inner().clock.uptime() < held.tenure.deadline() =>
            {
                Released::Released
            }
            reply => reply.into(),
        })
    }

    fn check_held(&self, operation: &'static str) -> Result<(), Error> {
        self.held.reason().map_or(Ok(()), |reason| Err(self.lost_error(operation, &reason)))
    }

    fn lost_error(&self, operation: &'static str, reason: &LossReason) -> Error {
        Error::new(ErrorKind::Lost, operation, reason.to_string()).with_key(&self.held.tenure.keys)
    }
}

impl LockGuard {
    pub(super) fn of(&self) -> Of<'_> {
        self.held.of()
    }
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockGuard")
            .field("key", &self.key())
            .field("fence", &self.held.fence)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// A release without an answer yet. Dropped while armed, it goes on in the background.
struct Undone<'a> {
    held: &'a Held,
    armed: bool,
}

impl Drop for Undone<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.held.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use lockkeeper_core::MemoryStore;
    use lockkeeper_testkit::wait::until;

    use super::LockGuard;
    use crate::lock::watchdog::tend;
    use crate::{Keeper, SystemClock};

    const SOON: Duration = Duration::from_secs(5);

    /// Releases `guard` to one who waits; who then has it.
    async fn pass(keeper: &Keeper, guard: LockGuard) -> LockGuard {
        let lock = keeper.lock("a").unwrap().wait(SOON);
        let next = tokio::spawn(async move { lock.acquire().await.unwrap().or_busy().unwrap() });
        until("one waits", SOON, async || keeper.health().await.waiting == 1).await;
        guard.release().await.unwrap();
        next.await.unwrap()
    }

    /// Also what is not renewed.
    #[tokio::test]
    async fn what_comes_into_doubt_while_it_is_looked_for_is_looked_for_again() {
        let keeper = Keeper::builder().memory_store(MemoryStore::new(Arc::new(SystemClock)));
        let keeper = keeper.connect().await.unwrap();
        let lock = keeper.lock("a").unwrap().lease(Duration::from_secs(3600)).no_renewal();
        let guard = lock.acquire().await.unwrap().or_busy().unwrap();
        let tenure = &guard.held.tenure;
        assert!(tend(tenure).is_none(), "nothing is due");
        tenure.doubt();
        let look = tend(tenure).unwrap();
        assert!(!tenure.is_doubtful());
        tenure.doubt();
        look.await;
        until("it was looked for again", SOON, async || !tenure.is_doubtful()).await;
        assert!(guard.is_valid());
    }

    #[tokio::test]
    async fn what_the_primary_of_now_has_not_confirmed_is_not_passed_on_as_it_is() {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let keeper = Keeper::builder().memory_store(store).connect().await.unwrap();
        let first = keeper.lock("a").unwrap().acquire().await.unwrap().or_busy().unwrap();
        let holder = pass(&keeper, first).await;
        let token = holder.held.tenure.token.clone();
        let holder = pass(&keeper, holder).await;
        assert_eq!(holder.held.tenure.token.holder(), token.holder(), "passed on");
        // It was seen last under another primary.
        holder.held.tenure.confirm(7);
        let holder = pass(&keeper, holder).await;
        assert_ne!(holder.held.tenure.token.holder(), token.holder(), "the store was asked");
        assert!(holder.is_valid());
    }
}
