//! Inspect permits: who holds one, and for how long. Changes nothing.

use std::time::Duration;

use super::cell::{PermitCell, only};
use super::limit::MAX_PERMITS;
use crate::decision::{Decision, WrongType};
use crate::lock::token::Holder;
use crate::time::Timestamp;

/// Looks at the permits of a name.
#[derive(Clone, Copy, Debug, Default)]
pub struct InspectPermits;

/// One who holds a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitHolder {
    /// Who.
    pub holder: Holder,
    /// What is left of the lease.
    pub remaining: Duration,
}

impl Decision for InspectPermits {
    type State = PermitCell;
    /// By the end of the leases, at most [`MAX_PERMITS`].
    type Reply = Vec<PermitHolder>;
    const NAME: &'static str = "inspect_permits";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [PermitCell], now: Timestamp) -> Result<Vec<PermitHolder>, WrongType> {
        let seen = only(cells)?.in_order().take(MAX_PERMITS as usize).map(|(ends, token)| PermitHolder {
            holder: token.holder(),
            remaining: Timestamp::from_micros(ends).since(now),
        });
        Ok(seen.collect())
    }
}
