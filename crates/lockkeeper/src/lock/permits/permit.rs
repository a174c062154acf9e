//! The permit: what a holder holds.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::permit::{ReleasePermit, ReleasePermitReply};
use lockkeeper_core::lock::{Holder, OwnerToken};
use lockkeeper_core::{Error, Uptime};
use lockkeeper_redis::Lane;

use super::held::HeldPermit;
use crate::lock::outcome::{LossReason, Released};
use crate::telemetry::Reason;

/// A held permit of a [`Concurrency`](crate::Concurrency) limit. Clones share it inside this process; the last one to be
/// dropped releases it in the background, also outside of a runtime.
///
/// It has no fence: several hold at once. Look at [`is_valid`](Self::is_valid) before each step that must not run
/// beside too many others, and prefer the explicit [`release`](Self::release).
#[derive(Clone)]
#[must_use = "dropping the permit releases it"]
pub struct Permit {
    held: Arc<HeldPermit>,
}

impl Permit {
    pub(super) fn new(held: Arc<HeldPermit>) -> Self {
        Self { held }
    }

    /// The lease has not ended by this process's own clock, and nothing else is known against it.
    ///
    /// It errs on the safe side: it turns false before the server would let anyone else in, also after a suspend. A
    /// paused *virtual machine* is seen by no clock inside it. Costs no round trip.
    pub fn is_valid(&self) -> bool {
        self.held.is_valid()
    }

    /// How long it is valid without another renewal; zero when it is not.
    pub fn remaining(&self) -> Duration {
        if self.held.is_held() { self.held.deadline().since(self.now()) } else { Duration::ZERO }
    }

    /// Waits until the permit is no longer valid, and says why. A wanted release is the reason `Released`. Costs no
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

    /// The key, as displayed.
    pub fn key(&self) -> String {
        self.held.keys.to_string()
    }

    /// The length of the lease.
    pub fn lease(&self) -> Duration {
        self.held.lease.as_duration()
    }

    /// Who holds it, as others see it.
    pub fn holder(&self) -> Holder {
        self.held.token.holder()
    }

    /// Gives the permit back, for all clones. Releasing twice is harmless. Who waits for one in this process is woken at
    /// once. `Expired` says that the lease had ended before.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip. Inside: `TIME`, two `ZREMRANGEBYSCORE`, `ZREM`, `ZREVRANGE`, `PEXPIREAT`.
    ///
    /// # Errors
    /// The server refused, or is unreachable: it is tried again in the background until the lease has ended. Without an
    /// answer: [`Released::Unknown`], and the same.
    ///
    /// # Cancel safety
    /// It is released in the background.
    pub async fn release(self) -> Result<Released, Error> {
        let held = &self.held;
        let was_valid = held.is_valid();
        if !held.end(LossReason::Released) && held.reason() == Some(LossReason::Released) {
            return Ok(Released::Released);
        }
        let mut undone = Undone { held, armed: true };
        let (decision, within) = (ReleasePermit { token: held.token.clone() }, held.inner.response_timeout);
        let answer = match held.inner.backend.apply(Lane::Command, &held.keys, decision, within).await {
            Ok(answer) => answer,
            Err(error) => {
                held.report_release(Reason::from(&error));
                return if error.is_outcome_unknown() { Ok(Released::Unknown) } else { Err(error) };
            }
        };
        undone.armed = false;
        held.was_released();
        let released = match answer.reply {
            // The first copy's answer was lost, and it did it: the lease was running all the while.
            ReleasePermitReply::Expired if answer.sent > 1 && was_valid && self.now() < held.deadline() => {
                Released::Released
            }
            reply => reply.into(),
        };
        held.report_release(Reason::from(&released));
        Ok(released)
    }

    pub(super) fn token(&self) -> &OwnerToken {
        &self.held.token
    }

    fn now(&self) -> Uptime {
        self.held.inner.clock.uptime()
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit")
            .field("key", &self.key())
            .field("holder", &self.token().holder())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// A release without an answer yet. Dropped while armed, it goes on in the background.
struct Undone<'a> {
    held: &'a HeldPermit,
    armed: bool,
}

impl Drop for Undone<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.held.give_back();
        }
    }
}
