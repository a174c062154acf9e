//! Acquire a permit, if fewer than the limit are held.

use std::time::Duration;

use super::cell::{PermitCell, only};
use super::limit::PermitLimit;
use crate::decision::{Decision, WrongType};
use crate::lock::lease::Lease;
use crate::lock::token::OwnerToken;
use crate::time::Timestamp;

/// Takes one permit for `token`, if fewer than `limit` are held.
///
/// The limit is the caller's, not the key's: where more are held than a lowered limit allows, nobody is evicted, and
/// nobody is let in until fewer are held.
///
/// *Repeating* with the same token is harmless: it restarts the lease (never shortens it), and takes no second permit,
/// also where the limit was lowered meanwhile.
#[derive(Clone, Debug)]
pub struct AcquirePermit {
    /// Unique per acquisition.
    pub token: OwnerToken,
    /// From the moment of the decision.
    pub lease: Lease,
    /// How many may hold at once.
    pub limit: PermitLimit,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to an [`AcquirePermit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquirePermitReply {
    /// The token holds a permit.
    Granted {
        /// How many are held now, this one included.
        held: u32,
    },
    /// As many as may be are held.
    Full {
        /// How many: at least the limit.
        held: u32,
        /// How long until the first of their leases ends, if it is not renewed. Never zero.
        first_end: Duration,
    },
}

impl Decision for AcquirePermit {
    type State = PermitCell;
    type Reply = AcquirePermitReply;
    const NAME: &'static str = "acquire_permit";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [PermitCell], now: Timestamp) -> Result<AcquirePermitReply, WrongType> {
        let permits = only(cells)?;
        if permits.ends(&self.token).is_none() && permits.held() >= self.limit.get() as usize {
            let (held, first_end) = (count(permits.held()), permits.until_first_end(now));
            return Ok(AcquirePermitReply::Full { held, first_end });
        }
        permits.lengthen(&self.token, self.lease, now);
        Ok(AcquirePermitReply::Granted { held: count(permits.held()) })
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}

fn count(held: usize) -> u32 {
    u32::try_from(held).unwrap_or(u32::MAX)
}
