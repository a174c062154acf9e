//! The watchdog's work on one held lock: renew it, try again inside the lease, or declare it lost.
//!
//! Invariant 10: nothing renews after release. A renewal of a released lock finds the acquisition ended before it is
//! sent, and finds no key with its token if it was under way; a renewal never creates a key.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_core::lock::{Renew, RenewReply};
use lockkeeper_core::{Error, Timestamp, Uptime};
use lockkeeper_redis::Lane;

use super::held::Held;
use super::outcome::LossReason;

/// The shortest and the longest pause before a failed renewal is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Does what is due for `held`, and puts it back on the timeline.
pub(crate) async fn tend(held: Arc<Held>) {
    let now = held.inner.clock.uptime();
    if !held.is_held() {
    } else if now >= held.deadline() {
        held.end(LossReason::Expired);
    } else if !held.terms.renew {
        held.tend_at(held.deadline());
    } else if held.hold_bound().is_some_and(|bound| now >= bound) {
        held.end(LossReason::MaxHold);
    } else if held.terms.max_renewals.is_some_and(|most| held.renewals.load(Ordering::Relaxed) >= most) {
        held.end(LossReason::MaxRenewals);
    } else {
        renew(&held, now).await;
    }
}

async fn renew(held: &Arc<Held>, sent: Uptime) {
    let within = held.inner.response_timeout.min(held.lease.as_duration() / 4);
    let decision = Renew { token: held.token.clone(), lease: held.lease, not_after: Timestamp::MAX };
    match held
        .inner
        .backend
        .apply(Lane::Renewal, &held.keys, decision, within)
        .await
        .map(|answer| answer.reply)
    {
        Ok(RenewReply::Renewed) => {
            held.prolong(held.lease, sent);
            held.failing.store(false, Ordering::Relaxed);
            held.renewals.fetch_add(1, Ordering::Relaxed);
            held.tend_at(held.next_renewal(sent));
        }
        Ok(RenewReply::Expired(_)) => held.end_as_absent(),
        Ok(RenewReply::HeldByAnother(_, holder)) => drop(held.end(LossReason::HeldByAnother(holder))),
        Err(error) => retry_or_lose(held, &error),
    }
}

/// A failed or unanswered renewal says nothing about the lease: it runs until its deadline.
fn retry_or_lose(held: &Arc<Held>, error: &Error) {
    if !held.is_held() {
        return;
    }
    if held.failing.swap(true, Ordering::Relaxed) {
        tracing::debug!(key = %held.keys, %error, "lock renewal failed again");
    } else {
        tracing::warn!(key = %held.keys, %error, "lock renewal failed; trying again inside the lease");
    }
    let now = held.inner.clock.uptime();
    if now >= held.deadline() {
        held.end(LossReason::NotRenewed(error.to_string()));
        return;
    }
    let pause = (held.lease.as_duration() / 20).clamp(RETRY.0, RETRY.1).mul_f64(rand::random_range(0.5..1.0));
    held.tend_at(now.after(pause).min(held.deadline()));
}
