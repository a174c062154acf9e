//! One try to claim a key.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::idempotency::{Begin, BeginReply, Fingerprint, HowAbandoned};
use lockkeeper_core::{Error, Keys, Timestamp};
use lockkeeper_redis::Lane;

use super::attempt::Attempt;
use super::builder::{Once, Terms};
use super::held::{Grant, HeldAttempt};
use super::line::Line;
use super::outcome::{Begun, Replay};
use crate::lock::{Claim, Kind, fresh_token};

/// A hint is never zero: zero would say "now".
pub(super) const SHORTEST_HINT: Duration = Duration::from_micros(1);

/// What is asked.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) once: &'a Once,
    pub(super) keys: &'a Keys,
    pub(super) terms: Terms,
    pub(super) fingerprint: Fingerprint,
    pub(super) line: &'a Arc<Line>,
}

/// Tries once with a fresh token; see [`Claim`]. Nothing has begun while the answer is out, so a claim that nobody gets leaves
/// the key open.
pub(super) async fn once(asked: Asked<'_>, lane: Lane) -> Result<Begun, Error> {
    let Asked { once, keys, terms, fingerprint, line } = asked;
    let (inner, within) = (&once.inner, once.inner.response_timeout);
    // Whoever closes the keeper waits until it is known, and given back.
    let busy = inner.background.busy();
    // Asked after that, so that whoever closes sees this, or this sees that it is closed.
    once.check_open(keys)?;
    let token = fresh_token(inner, None)?;
    let kind = Kind::Once(line.clone(), HowAbandoned::Undone);
    let mut claim = Claim::new(inner, keys, token.clone(), kind, terms.lease, within);
    let Terms { lease, on_crash, retain, .. } = terms;
    let seen = inner.seen_fence();
    let decision = Begin { token, lease, on_crash, retain, fingerprint, seen, not_after: Timestamp::MAX };
    let answer = inner.backend.apply(lane, keys, decision, within).await;
    let reply = claim.note(answer)?.reply;
    let BeginReply::Claimed { fence, attempt, takeover } = reply else {
        claim.refused();
        return Ok(refused(reply));
    };
    inner.saw_fence(fence);
    // Nothing has begun, so it must not be left to its lease.
    once.check_open(keys)?;
    let grant = Grant { claimed: claim.granted()?, fence, attempt, takeover };
    Ok(Begun::Claimed(Attempt::new(HeldAttempt::new(asked, grant, busy))))
}

fn refused(reply: BeginReply) -> Begun {
    match reply {
        BeginReply::Completed { stored, fence, remaining } => {
            Begun::Completed(Replay { stored, fence, remaining })
        }
        BeginReply::Running { holder, attempt, remaining } => {
            Begun::Running { holder, attempt, retry_after: remaining.max(SHORTEST_HINT) }
        }
        BeginReply::Unknown { holder, fence, remaining } => Begun::Unknown { holder, fence, remaining },
        BeginReply::DifferentRequest | BeginReply::Claimed { .. } => Begun::DifferentRequest,
    }
}
