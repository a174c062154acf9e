//! Permits: at most so many holders of one name at once, each with a lease of its own. What is kept, and one file per
//! decision.
//!
//! A decision about permits is about one key; of several, only the first is looked at.

mod acquire;
mod cell;
mod inspect;
mod limit;
mod release;
mod renew;

#[cfg(test)]
mod tests;

pub use acquire::{AcquirePermit, AcquirePermitReply};
pub use cell::{MAX_PERMIT_AHEAD, PermitCell, Permits};
pub use inspect::{InspectPermits, PermitHolder};
pub use limit::{MAX_PERMITS, PermitLimit};
pub use release::{ReleasePermit, ReleasePermitReply};
pub use renew::{RenewPermit, RenewPermitReply};
