//! The handle of an attempt.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Error;
use lockkeeper_core::idempotency::Stored;
use lockkeeper_core::lock::{Fence, Holder};

use super::finish;
use super::held::HeldAttempt;
use super::outcome::Completed;
use crate::lock::LossReason;

/// The right to run an operation, until its lease ends. Clones share it inside this process.
///
/// End it with [`complete`](Self::complete) or [`abandon`](Self::abandon). Where the last clone is dropped without either, the
/// operation may have had its effect: the attempt counts as crashed at once, in the background, also outside of a runtime; what
/// then becomes of the key, [`Once::on_crash`](crate::Once::on_crash) says.
#[derive(Clone)]
#[must_use = "an attempt that is dropped counts as crashed"]
pub struct Attempt {
    held: Arc<HeldAttempt>,
}

impl Attempt {
    pub(super) fn new(held: Arc<HeldAttempt>) -> Self {
        Self { held }
    }

    /// Greater than that of every attempt before it, while the record lives. A resource that remembers the greatest one it has
    /// seen refuses an attempt that lost its claim without noticing.
    pub fn fence(&self) -> Fence {
        self.held.fence
    }

    /// Which attempt of this key it is; the first is one.
    pub fn attempt(&self) -> u64 {
        self.held.number
    }

    /// An attempt before it went away without an end: that one may have had its effect, or part of it, and nobody has found out
    /// since.
    pub fn is_takeover(&self) -> bool {
        self.held.takeover
    }

    /// The key on the server, as displayed.
    pub fn key(&self) -> String {
        self.held.keys.to_string()
    }

    /// Who runs it, as others see it.
    pub fn holder(&self) -> Holder {
        self.held.token.holder()
    }

    /// The lease has not ended by this process's own clock, and nothing else is known against it.
    ///
    /// It errs on the safe side: it turns false before the store would let anyone else run, also after a suspend. A paused
    /// *virtual machine* is seen by no clock inside it. Costs no round trip.
    pub fn is_valid(&self) -> bool {
        self.held.is_valid()
    }

    /// How long it is valid without another renewal; zero when it is not.
    pub fn remaining(&self) -> Duration {
        let now = self.held.inner.clock.uptime();
        if self.held.is_running() { self.held.deadline().since(now) } else { Duration::ZERO }
    }

    /// Waits until the attempt is no longer valid, and says why. A wanted end is the reason `Released`. Costs no round trip.
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

    /// The operation has ended with this result: stores it and ends the claim in one step, for all clones. A result larger than
    /// [`Once::max_result`](crate::Once::max_result) is not kept; that it was there is.
    ///
    /// Where no answer comes, or one that may be another soon, it is tried again for a minute at least, and renewals go on
    /// meanwhile, beyond [`max_hold`](crate::Once::max_hold) too: nobody runs it a second time because of that. This call waits for
    /// ten seconds of it; what happens afterwards is in the log. With many results that wait for a server, those beyond 64 MiB are
    /// not kept; that they were there is. An attempt whose lease ended can still be completed, if no other has begun.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip.
    ///
    /// # Errors
    /// Lost: another attempt has begun, the record is gone, or the attempt was ended already; nothing was stored. Outcome
    /// unknown: it goes on in the background, or, and the words say so, the keeper was closed and nobody tries again. Refused for good, or another type under the key: the claim is left to its lease.
    ///
    /// # Cancel safety
    /// It goes on in the background, also where the future was never polled.
    pub fn complete(self, stored: Stored) -> impl Future<Output = Result<Completed, Error>> + Send {
        finish::complete(self.held, stored)
    }

    /// The operation had no effect: ends the claim, for all clones. The key is open, also for a different request; but a
    /// [takeover](Self::is_takeover) says nothing of the attempt that crashed before it, so the next one is a takeover too.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip.
    ///
    /// # Errors
    /// Lost: it was not this attempt's any more, or the attempt was ended already. Refused, unreachable, outcome unknown: it
    /// goes on in the background, unless the keeper was closed.
    ///
    /// # Cancel safety
    /// It goes on in the background, also where the future was never polled.
    pub fn abandon(self) -> impl Future<Output = Result<(), Error>> + Send {
        finish::abandon(self.held)
    }

    /// It has been completed or abandoned, or that is under way.
    pub(super) fn is_settled(&self) -> bool {
        self.held.is_settled()
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> &Arc<HeldAttempt> {
        &self.held
    }

    /// Whoever asked for it has it, or its work has begun.
    pub(super) fn started(&self) {
        self.held.started();
    }
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt")
            .field("key", &self.key())
            .field("attempt", &self.attempt())
            .field("fence", &self.fence())
            .field("holder", &self.holder())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
