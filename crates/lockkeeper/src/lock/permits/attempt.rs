//! One try to take a permit.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::Lease;
use lockkeeper_core::lock::permit::{AcquirePermit, AcquirePermitReply};
use lockkeeper_core::{Error, Timestamp};
use lockkeeper_redis::Lane;

use super::concurrency::Concurrency;
use super::held::HeldPermit;
use super::line::Line;
use super::outcome::{AcquiredPermit, Full};
use super::permit::Permit;
use crate::lock::attempt::fresh_token;
use crate::lock::claim::Claim;
use crate::lock::give_back::Kind;

/// A hint is never zero: zero would say "now".
const SHORTEST_HINT: Duration = Duration::from_micros(1);

/// Tries once with a fresh token; see [`Claim`].
pub(super) async fn once(
    wanted: &Concurrency,
    lease: Lease,
    line: &Arc<Line>,
) -> Result<AcquiredPermit, Error> {
    let (inner, keys, within) = (&wanted.inner, &wanted.keys, wanted.inner.response_timeout);
    let token = fresh_token(inner, None)?;
    let mut claim = Claim::new(inner, keys, token.clone(), Kind::Permit(line.clone()), lease, within);
    let decision = AcquirePermit { token, lease, limit: wanted.limit, not_after: Timestamp::MAX };
    let lasting = inner.backend.apply_lasting(wanted.durability, Lane::Command, keys, decision, within).await;
    match claim.note_lasting(lasting, "acquire_permit")? {
        AcquirePermitReply::Granted { .. } => {
            let held = HeldPermit::new(wanted, lease, claim.granted()?, line.clone());
            Ok(AcquiredPermit::Held(Permit::new(held)))
        }
        AcquirePermitReply::Full { held, first_end } => {
            claim.refused();
            let (key, limit) = (keys.at(0).clone(), wanted.limit.get());
            Ok(AcquiredPermit::Full(Full { key, held, limit, retry_after: first_end.max(SHORTEST_HINT) }))
        }
    }
}
