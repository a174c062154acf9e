//! The watchdog's work on one permit: renew it, try again inside the lease, or see it lapse.
//!
//! Invariant 10: nothing renews after release, and a renewal never takes a permit.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use lockkeeper_core::lock::permit::{RenewPermit, RenewPermitReply};
use lockkeeper_core::{Error, Timestamp, Uptime};
use lockkeeper_redis::Lane;

use super::held::HeldPermit;
use crate::lock::outcome::LossReason;
use crate::lock::watchdog::{renewal_limit, retry_pause};
use crate::telemetry::Reason;

/// Does what is due for `held`, puts it back on the timeline, and returns the renewal to be run, if one is due.
pub(crate) fn tend(held: &Arc<HeldPermit>) -> Option<BoxFuture<'static, ()>> {
    let now = held.inner.clock.uptime();
    if !held.is_held() {
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

/// The renewal owns no part of the permit: one that is dropped meanwhile is released at once.
fn renewal(held: &Arc<HeldPermit>, sent: Uptime) -> BoxFuture<'static, ()> {
    let (within, term) = (renewal_limit(&held.inner, held.lease), held.term());
    let decision = RenewPermit { token: held.token.clone(), lease: held.lease, not_after: Timestamp::MAX };
    let (backend, keys, level) = (held.inner.backend.clone(), held.keys.clone(), held.durability);
    let held = Arc::downgrade(held);
    Box::pin(async move {
        let lasting = backend.apply_lasting(level, Lane::Renewal, &keys, decision, within).await;
        if let Some(held) = held.upgrade() {
            // One that too few have does not count.
            note(&held, sent, term, lasting.and_then(|lasting| lasting.reply("renew_permit")));
        }
    })
}

fn note(held: &Arc<HeldPermit>, sent: Uptime, term: u64, answer: Result<RenewPermitReply, Error>) {
    match answer {
        Ok(RenewPermitReply::Renewed) => {
            held.prolong(sent, term);
            held.set_trouble(None);
            held.class.renewed();
            held.tend_next(sent);
        }
        Ok(RenewPermitReply::Expired) => {
            held.class.renewal_failed(Reason::Expired);
            held.lose_as_absent();
        }
        // A failed or unanswered renewal says nothing about the lease: it runs until its deadline.
        Err(error) => {
            tracing::debug!(key = %held.keys, %error, "a permit was not renewed");
            held.class.renewal_failed(Reason::from(&error));
            held.set_trouble(Some(error.to_string()));
            let due = held.inner.clock.uptime().after(retry_pause(held.lease));
            held.tend_at(due.min(held.deadline()).min(held.hold_bound()));
        }
    }
}
