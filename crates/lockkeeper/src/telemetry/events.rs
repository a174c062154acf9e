//! Events. Nothing is formatted, and no holder read from a token, while an event is disabled.
//!
//! `client_id` is the holder part of the token, never the secret. Every key of several is named.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::idempotency::{Resolution, ResolveReply, Stored};
use lockkeeper_core::lock::{Fence, Holder, KeeperName, OwnerToken};
use lockkeeper_core::{Error, Keys};
use tracing::{debug, info, warn};

use super::reason::Reason;
use super::table::{self, LIMIT_TARGET, ONCE_TARGET, TARGET};
use crate::limit::Source;
use crate::lock::{Busy, LossReason};

/// Whose event it is: one acquisition.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) token: &'a OwnerToken,
    pub(crate) fence: Fence,
}

/// No token is made yet: the client is the keeper.
pub(crate) fn acquire_start(keys: &Keys, keeper: &KeeperName) {
    let message = table::ACQUIRE_START.name;
    debug!(target: TARGET, message, lock_key = %keys, client_id = %keeper);
}

pub(crate) fn acquire_success(of: Of<'_>, took: Duration, lease: Duration) {
    debug!(
        target: TARGET,
        message = table::ACQUIRE_SUCCESS.name,
        lock_key = %of.keys,
        client_id = %of.token.holder(),
        fence = of.fence.get(),
        acquire_time_ms = millis(took),
        ttl_seconds = lease.as_secs_f64(),
    );
}

pub(crate) fn acquire_refused(keys: &Keys, token: Option<&OwnerToken>, busy: &Busy, waited: Duration) {
    debug!(
        target: TARGET,
        message = table::ACQUIRE_REFUSED.name,
        lock_key = %keys,
        client_id = token.map(|token| tracing::field::display(token.holder())),
        holder = %busy.holder,
        remaining_ms = busy.remaining.map(millis),
        reason = Reason::Busy.word(),
        waited_ms = millis(waited),
    );
}

pub(crate) fn acquire_failed(keys: &Keys, error: &Error, waited: Duration) {
    debug!(
        target: TARGET,
        message = table::ACQUIRE_FAILED.name,
        lock_key = %keys,
        %error,
        reason = Reason::from(error).word(),
        waited_ms = millis(waited),
    );
}

/// The first failure in a row is a warning.
pub(crate) fn renew_failed(of: Of<'_>, error: &Error, is_first: bool) {
    let (message, reason) = (table::RENEW_FAILED.name, Reason::from(error).word());
    macro_rules! write_at {
        ($level:ident) => {
            $level!(
                target: TARGET,
                message,
                lock_key = %of.keys,
                client_id = %of.token.holder(),
                fence = of.fence.get(),
                %error,
                reason,
            )
        };
    }
    if is_first { write_at!(warn) } else { write_at!(debug) }
}

/// A wanted release is no loss and writes nothing.
pub(crate) fn lost(of: Of<'_>, reason: &LossReason, held_for: Duration) {
    if reason.is_wanted() {
        return;
    }
    warn!(
        target: TARGET,
        message = table::LOCK_LOST.name,
        lock_key = %of.keys,
        client_id = %of.token.holder(),
        fence = of.fence.get(),
        %reason,
        held_ms = millis(held_for),
    );
}

/// A release was answered or failed; a late one is a warning of its own, beside it.
pub(crate) fn released(of: Of<'_>, outcome: Reason, held_for: Duration) {
    let word = if outcome == Reason::None { "released" } else { outcome.word() };
    macro_rules! write_at {
        ($level:ident, $event:expr) => {
            $level!(
                target: TARGET,
                message = $event.name,
                lock_key = %of.keys,
                client_id = %of.token.holder(),
                fence = of.fence.get(),
                held_ms = millis(held_for),
                outcome = word,
            )
        };
    }
    write_at!(debug, table::RELEASED);
    if outcome.is_late() {
        write_at!(warn, table::LATE_RELEASE);
    }
}

pub(crate) fn degraded(keys: &Keys, error: &Error) {
    let (message, reason) = (table::LOCK_DEGRADED.name, Reason::from(error).word());
    warn!(target: TARGET, message, lock_key = %keys, %error, reason);
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The key is shown at this level only: it names who was refused.
pub(crate) fn limit_denied(
    limit: &str,
    keys: &Keys,
    cost: u64,
    retry_after: Option<Duration>,
    source: Source,
) {
    debug!(
        target: LIMIT_TARGET,
        message = table::LIMIT_DENIED.name,
        limit,
        limit_key = %keys,
        cost,
        retry_after_ms = retry_after.map(millis_up),
        source = super::limit::word(source),
    );
}

/// Somebody reads [`limit_denied`]: only then is it worth naming the keys.
pub(crate) fn limit_denied_is_seen() -> bool {
    tracing::enabled!(target: LIMIT_TARGET, tracing::Level::DEBUG)
}

pub(crate) fn limit_refund_failed(limit: &str, cost: u64, error: &Error) {
    let message = table::LIMIT_REFUND_FAILED.name;
    debug!(target: LIMIT_TARGET, message, limit, cost, error = %WithoutKey(error));
}

pub(super) fn limit_degraded(limit: &str, error: &Error) {
    let (message, reason) = (table::LIMIT_DEGRADED.name, Reason::from(error).word());
    warn!(target: LIMIT_TARGET, message, limit, error = %WithoutKey(error), reason);
}

pub(super) fn limit_repaired(limit: &str, repaired: usize) {
    let message = table::LIMIT_REPAIRED.name;
    warn!(target: LIMIT_TARGET, message, limit, repaired);
}

pub(super) fn limit_circuit_opened(server: &str, error: &Error) {
    let (message, reason) = (table::LIMIT_CIRCUIT_OPENED.name, Reason::from(error).word());
    warn!(target: LIMIT_TARGET, message, server, error = %WithoutKey(error), reason);
}

pub(super) fn limit_circuit_closed(server: &str) {
    info!(target: LIMIT_TARGET, message = table::LIMIT_CIRCUIT_CLOSED.name, server);
}

/// A limit's key names a subject, who is nobody's business above debug; other keys have a field of their own.
struct WithoutKey<'a>(&'a Error);

impl fmt::Display for WithoutKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        write!(f, "{}: {}", error.operation(), error.kind())?;
        if error.detail().is_empty() { Ok(()) } else { write!(f, ": {}", error.detail()) }
    }
}

/// Rounded up: nobody is to come back too early.
fn millis_up(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Whose event it is: one attempt of what runs once.
#[derive(Clone, Copy)]
pub(crate) struct OfAttempt<'a> {
    pub(crate) once: &'static str,
    pub(crate) keys: &'a Keys,
    pub(crate) token: &'a OwnerToken,
    pub(crate) fence: Fence,
    pub(crate) attempt: u64,
}

/// An event of one attempt: what all of them say, and its own.
macro_rules! of_attempt {
    ($level:ident, $event:expr, $of:expr $(, $($own:tt)*)?) => {
        $level!(
            target: ONCE_TARGET,
            message = $event.name,
            once = $of.once,
            once_key = %$of.keys,
            client_id = %$of.token.holder(),
            attempt = $of.attempt,
            fence = $of.fence.get(),
            $($($own)*)?
        )
    };
}

pub(super) fn once_claimed(of: OfAttempt<'_>, takeover: bool) {
    of_attempt!(debug, table::ONCE_CLAIMED, of, takeover);
}

pub(super) fn once_taken_over(of: OfAttempt<'_>) {
    of_attempt!(warn, table::ONCE_TAKEN_OVER, of);
}

pub(super) fn once_replayed(once: &str, keys: &Keys, fence: Fence, remaining: Duration) {
    let (message, remaining_ms) = (table::ONCE_REPLAYED.name, millis(remaining));
    debug!(target: ONCE_TARGET, message, once, once_key = %keys, fence = fence.get(), remaining_ms);
}

pub(super) fn once_refused(once: &str, keys: &Keys, result: &str, holder: Option<&Holder>) {
    let (message, holder) = (table::ONCE_REFUSED.name, holder.map(tracing::field::display));
    debug!(target: ONCE_TARGET, message, once, once_key = %keys, result, holder);
}

pub(super) fn once_failed(once: &str, error: &Error) {
    let (message, reason) = (table::ONCE_FAILED.name, Reason::from(error).word());
    debug!(target: ONCE_TARGET, message, once, error = %WithoutKey(error), reason);
}

/// The first failure in a row is a warning.
pub(super) fn once_renew_failed(of: OfAttempt<'_>, error: &Error, is_first: bool) {
    let reason = Reason::from(error).word();
    if is_first {
        of_attempt!(warn, table::ONCE_RENEW_FAILED, of, error = %WithoutKey(error), reason);
    } else {
        of_attempt!(debug, table::ONCE_RENEW_FAILED, of, error = %WithoutKey(error), reason);
    }
}

pub(super) fn once_lost(of: OfAttempt<'_>, reason: &LossReason, ran_for: Duration) {
    of_attempt!(warn, table::ONCE_LOST_EVENT, of, %reason, ran_ms = millis(ran_for));
}

pub(super) fn once_completed(of: OfAttempt<'_>, stored: &Stored, ran_for: Duration) {
    let (ran_ms, bytes, whole) = (millis(ran_for), stored.bytes().len(), stored.is_whole());
    of_attempt!(debug, table::ONCE_COMPLETED, of, ran_ms, bytes, whole);
}

pub(super) fn once_not_recorded(of: OfAttempt<'_>, reason: Reason, ran_for: Duration) {
    of_attempt!(warn, table::ONCE_NOT_RECORDED, of, ran_ms = millis(ran_for), reason = reason.word());
}

pub(super) fn once_abandoned(of: OfAttempt<'_>, how: &str, ran_for: Duration) {
    of_attempt!(debug, table::ONCE_ABANDONED_EVENT, of, ran_ms = millis(ran_for), how);
}

pub(crate) fn once_may_be_evicted(policy: &str) {
    warn!(target: ONCE_TARGET, message = table::ONCE_MAY_BE_EVICTED.name, policy);
}

pub(crate) fn once_resolved(
    once: &str,
    keys: &Keys,
    operator: &Holder,
    fence: Fence,
    resolution: &Resolution,
    reply: &ResolveReply,
) {
    let resolution = match resolution {
        Resolution::Undone => "undone",
        Resolution::Completed(_) => "completed",
    };
    warn!(
        target: ONCE_TARGET,
        message = table::ONCE_RESOLVED.name,
        once,
        once_key = %keys,
        client_id = %operator,
        fence = fence.get(),
        resolution,
        outcome = ?reply,
    );
}
