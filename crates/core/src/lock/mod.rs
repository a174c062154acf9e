//! Locks: the values a lock is made of, what is kept under its keys, and one file per decision.

mod acquire;
mod cell;
mod durability;
mod fence;
mod force_release;
mod inspect;
mod lease;
mod leave;
pub mod permit;
mod presence;
pub mod quorum;
mod raise_fence;
mod release;
mod renew;
mod store;
mod swap;
mod token;
mod watch;

#[cfg(test)]
mod tests;

pub use acquire::{Acquire, AcquireReply, Busy};
pub use cell::{FenceMark, LockCell, Main, Occupant};
pub use durability::{Acknowledging, Durability, Lasting, Leasing, MAX_REPLICAS, ReplicaCount, Shortfall};
pub use fence::{FENCE_LEAD, FENCE_MAX, FENCE_RETENTION, Fence, FenceRequest, MAX_FENCE_BLOCK, parse_fence};
pub use force_release::{ForceRelease, ForceReleaseReply};
pub use inspect::{Inspect, Inspection};
pub use lease::{Lease, MAX_LEASE, MIN_LEASE, MIN_RENEWED_LEASE};
pub use leave::Leave;
pub use presence::{KeeperName, MAX_PRESENT, PRESENCE, Present, Waiter};
pub use raise_fence::{RaiseFence, RaiseFenceReply};
pub use release::{Release, ReleaseReply};
pub use renew::{Renew, RenewReply};
pub use store::{LockStore, StoreFuture};
pub use swap::{Swap, SwapReply};
pub use token::{Holder, Identity, MAX_TOKEN_BYTES, OwnerToken};
pub use watch::{Watch, WatchOutcome, WatchReply};
