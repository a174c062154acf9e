//! The watchdog's work on one attempt: renew it, try again inside the lease, or see it lapse.
//!
//! Invariant 10: nothing renews after the end, and a renewal never claims a key. While the end is being recorded it still
//! renews, so that nobody else runs meanwhile.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use lockkeeper_core::idempotency::{KeepAlive, KeepAliveReply};
use lockkeeper_core::{Error, Timestamp, Uptime};
use lockkeeper_redis::Lane;

use super::held::HeldAttempt;
use crate::lock::{LossReason, renewal_limit, retry_pause};

/// Does what is due for `held`, puts it back on the timeline, and returns the renewal to be run, if one is due.
pub(crate) fn tend(held: &Arc<HeldAttempt>) -> Option<BoxFuture<'static, ()>> {
    let now = held.inner.clock.uptime();
    if !held.is_running() {
        return None;
    }
    if now >= held.deadline() {
        held.lapse();
        return None;
    }
    if now >= held.hold_bound() {
        held.lose(LossReason::MaxHold);
        return None;
    }
    // While the renewal is under way, it stands at its deadline.
    held.tend_at(held.hold_bound().min(held.deadline()));
    Some(renewal(held, now))
}

/// The renewal owns no part of the attempt: one that is dropped meanwhile is abandoned at once.
fn renewal(held: &Arc<HeldAttempt>, sent: Uptime) -> BoxFuture<'static, ()> {
    let lease = held.terms.lease;
    let (within, term) = (renewal_limit(&held.inner, lease), held.term());
    let decision = KeepAlive { token: held.token.clone(), lease, not_after: Timestamp::MAX };
    let (backend, keys, held) = (held.inner.backend.clone(), held.keys.clone(), Arc::downgrade(held));
    Box::pin(async move {
        let answer = backend.apply(Lane::Renewal, &keys, decision, within).await;
        if let Some(held) = held.upgrade() {
            note(&held, sent, term, answer.map(|answer| answer.reply));
        }
    })
}

fn note(held: &Arc<HeldAttempt>, sent: Uptime, term: u64, answer: Result<KeepAliveReply, Error>) {
    match answer {
        Ok(KeepAliveReply::Kept) => {
            held.prolong(sent, term);
            held.set_trouble(None);
            held.class.renewed();
            held.tend_next(sent);
        }
        Ok(KeepAliveReply::Strayed(strayed)) => {
            held.class.renewal_strayed(&strayed);
            held.stray(&strayed);
        }
        // A failed or unanswered renewal says nothing about the lease: it runs until its deadline.
        Err(error) if held.is_running() => {
            let is_first = !held.set_trouble(Some(error.to_string()));
            held.class.renewal_failed(held.of(), &error, is_first);
            let due = held.inner.clock.uptime().after(retry_pause(held.terms.lease));
            held.tend_at(due.min(held.deadline()).min(held.hold_bound()));
        }
        Err(_) => {}
    }
}
