//! The watchdog's work on one tenure: renew it, try again inside the lease, or see it lapse.
//!
//! Invariant 10: nothing renews after release. A renewal of a released lock finds the acquisition ended before it is
//! sent, and finds no key with its token if it was under way; a renewal never creates a key.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lockkeeper_core::lock::{Inspect, Lease, Renew, RenewReply};
use lockkeeper_core::{Error, Timestamp, Uptime};
use lockkeeper_redis::Lane;

use super::held::Held;
use super::outcome::LossReason;
use super::tenure::Tenure;
use crate::keeper::Inner;
use crate::telemetry::{Reason, events};

/// The shortest and the longest pause before a failed renewal is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Does what is due for `tenure`, puts it back on the timeline, and returns the renewal to be run, if one is due.
pub(crate) fn tend(tenure: &Arc<Tenure>) -> Option<BoxFuture<'static, ()>> {
    let now = tenure.inner.clock.uptime();
    if tenure.is_over() {
        return None;
    }
    if now >= tenure.deadline() {
        tenure.lapse();
        return None;
    }
    let Some(held) = tenure.holder().filter(|held| held.is_held()) else {
        tenure.tend_next(now);
        return None;
    };
    let bound = held.hold_bound().unwrap_or(Uptime::MAX);
    if now >= bound {
        // Only if it is theirs still: they may be passing it on at this moment.
        if held.end(LossReason::MaxHold) {
            tenure.close();
        } else {
            tenure.tend_next(now);
        }
        return None;
    }
    // While the renewal is under way, it stands at its deadline.
    tenure.tend_at(bound.min(tenure.deadline()));
    if held.may_renew() {
        return Some(renewal(tenure, now));
    }
    tenure.is_doubtful().then(|| verification(tenure))
}

/// Looks whether a new primary, or a server that may have been restarted, knows a lease that is not renewed.
fn verification(tenure: &Arc<Tenure>) -> BoxFuture<'static, ()> {
    let (within, term) = (renewal_limit(&tenure.inner, tenure.lease), tenure.term());
    tenure.trust();
    let (backend, keys, tenure) = (tenure.inner.backend.clone(), tenure.keys.clone(), Arc::downgrade(tenure));
    Box::pin(async move {
        let answer = backend.apply(Lane::Renewal, &keys, Inspect, within).await;
        let Some(tenure) = tenure.upgrade() else { return };
        let mut holders = match answer {
            Ok(answer) => answer.reply.into_iter().map(|seen| seen.holder),
            Err(error) => {
                // No renewal has failed: if the lease ends meanwhile, it ends as it would have.
                tracing::debug!(key = %tenure.keys, %error, "the server did not say whether it knows a lease");
                if error.is_transient() || error.is_outcome_unknown() {
                    tenure.doubt();
                }
                return try_again(&tenure);
            }
        };
        let mine = Some(tenure.token.holder());
        match holders.find(|holder| *holder != mine) {
            None => confirm(&tenure, term),
            Some(None) => tenure.lose_as_absent(),
            Some(Some(other)) => tenure.lose_to(other),
        }
    })
}

/// It was seen in `term`. Is looked for again at once where that is in doubt once more.
fn confirm(tenure: &Arc<Tenure>, term: u64) {
    tenure.confirm(term);
    if tenure.is_doubtful() {
        tenure.tend_at(tenure.inner.clock.uptime());
    }
}

/// The renewal owns no part of the lock: a guard that is dropped meanwhile releases at once.
fn renewal(tenure: &Arc<Tenure>, sent: Uptime) -> BoxFuture<'static, ()> {
    tenure.trust();
    let (within, term) = (renewal_limit(&tenure.inner, tenure.lease), tenure.term());
    let decision = Renew { token: tenure.token.clone(), lease: tenure.lease, not_after: Timestamp::MAX };
    let (backend, keys, level) = (tenure.inner.backend.clone(), tenure.keys.clone(), tenure.durability);
    let tenure = Arc::downgrade(tenure);
    Box::pin(async move {
        let lasting = backend.apply_lasting(level, Lane::Renewal, &keys, decision, within).await;
        if let Some(tenure) = tenure.upgrade() {
            // One that too few have does not count: the guard relies on the lease before.
            note(&tenure, sent, term, lasting.and_then(|lasting| lasting.reply("renew")));
        }
    })
}

fn note(tenure: &Arc<Tenure>, sent: Uptime, term: u64, answer: Result<RenewReply, Error>) {
    match answer {
        Ok(RenewReply::Renewed) => {
            tenure.prolong(tenure.lease, sent, term);
            tenure.set_trouble(None);
            tenure.renewals.fetch_add(1, Ordering::Relaxed);
            report(tenure, |held| held.class.renewed());
            tenure.tend_next(sent);
        }
        Ok(RenewReply::Expired(_)) => {
            report(tenure, |held| held.class.renewal_failed(Reason::Expired));
            tenure.lose_as_absent();
        }
        Ok(RenewReply::HeldByAnother(_, holder)) => {
            report(tenure, |held| held.class.renewal_failed(Reason::HeldByAnother));
            tenure.lose_to(holder);
        }
        Err(error) => retry(tenure, &error),
    }
}

fn report(tenure: &Tenure, what: impl FnOnce(&Held)) {
    if let Some(held) = tenure.holder() {
        what(&held);
    }
}

/// A failed or unanswered renewal says nothing about the lease: it runs until its deadline.
fn retry(tenure: &Arc<Tenure>, error: &Error) {
    if tenure.is_over() {
        return;
    }
    let is_first = !tenure.set_trouble(Some(error.to_string()));
    report(tenure, |held| {
        held.class.renewal_failed(Reason::from(error));
        events::renew_failed(held.of(), error, is_first);
    });
    try_again(tenure);
}

fn try_again(tenure: &Arc<Tenure>) {
    let due = tenure.inner.clock.uptime().after(retry_pause(tenure.lease));
    tenure.tend_at(due.min(tenure.deadline()));
}

/// How long one renewal may take, so that there is time for another.
pub(crate) fn renewal_limit(inner: &Inner, lease: Lease) -> Duration {
    inner.response_timeout.min(lease.as_duration() / 4)
}

/// The pause before a failed renewal is tried again; with jitter.
pub(crate) fn retry_pause(lease: Lease) -> Duration {
    (lease.as_duration() / 20).clamp(RETRY.0, RETRY.1).mul_f64(rand::random_range(0.5..1.0))
}
