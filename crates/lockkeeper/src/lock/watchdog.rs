//! The watchdog's work on one held lock: renew it, try again inside the lease, or see it lapse.
//!
//! Invariant 10: nothing renews after release. A renewal of a released lock finds the acquisition ended before it is
//! sent, and finds no key with its token if it was under way; a renewal never creates a key.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lockkeeper_core::lock::{Renew, RenewReply};
use lockkeeper_core::{Error, Timestamp, Uptime};
use lockkeeper_redis::Lane;

use super::held::Held;
use super::outcome::LossReason;

/// The shortest and the longest pause before a failed renewal is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Does what is due for `held`, puts it back on the timeline, and returns the renewal to be run, if one is due.
pub(crate) fn tend(held: &Arc<Held>) -> Option<BoxFuture<'static, ()>> {
    let now = held.inner.clock.uptime();
    if !held.is_held() {
        return None;
    }
    if now >= held.deadline() {
        held.lapse();
        return None;
    }
    if held.hold_bound().is_some_and(|bound| now >= bound) {
        held.end(LossReason::MaxHold);
        return None;
    }
    // While the renewal is under way, it stands at its deadline.
    held.tend_at(held.hold_bound().map_or(held.deadline(), |bound| bound.min(held.deadline())));
    held.may_renew().then(|| renewal(held, now))
}

/// The renewal owns no part of the lock: a guard that is dropped meanwhile releases at once.
fn renewal(held: &Arc<Held>, sent: Uptime) -> BoxFuture<'static, ()> {
    let within = held.inner.response_timeout.min(held.lease.as_duration() / 4);
    let decision = Renew { token: held.token.clone(), lease: held.lease, not_after: Timestamp::MAX };
    let (backend, keys, held) = (held.inner.backend.clone(), held.keys.clone(), Arc::downgrade(held));
    Box::pin(async move {
        let answer = backend.apply(Lane::Renewal, &keys, decision, within).await;
        if let Some(held) = held.upgrade() {
            note(&held, sent, answer.map(|answer| answer.reply));
        }
    })
}

fn note(held: &Arc<Held>, sent: Uptime, answer: Result<RenewReply, Error>) {
    match answer {
        Ok(RenewReply::Renewed) => {
            held.prolong(held.lease, sent);
            held.set_trouble(None);
            held.renewals.fetch_add(1, Ordering::Relaxed);
            held.tend_at(held.next_renewal(sent));
        }
        Ok(RenewReply::Expired(_)) => held.end_as_absent(),
        Ok(RenewReply::HeldByAnother(_, holder)) => drop(held.end(LossReason::HeldByAnother(holder))),
        Err(error) => retry(held, &error),
    }
}

/// A failed or unanswered renewal says nothing about the lease: it runs until its deadline.
fn retry(held: &Arc<Held>, error: &Error) {
    if !held.is_held() {
        return;
    }
    if held.set_trouble(Some(error.to_string())) {
        tracing::debug!(key = %held.keys, %error, "lock renewal failed again");
    } else {
        tracing::warn!(key = %held.keys, %error, "lock renewal failed; trying again inside the lease");
    }
    let pause = (held.lease.as_duration() / 20).clamp(RETRY.0, RETRY.1).mul_f64(rand::random_range(0.5..1.0));
    held.tend_at(held.inner.clock.uptime().after(pause).min(held.deadline()));
}
