//! Locks: how one is described, taken, waited for, held, renewed and given back.

mod asked;
mod attempt;
mod builder;
mod claim;
mod class;
mod degraded;
mod give_back;
mod guard;
mod held;
mod local;
mod outcome;
mod permits;
mod queue;
mod segmented;
mod swap;
mod tended;
mod tenure;
mod wait;
mod watchdog;

pub(crate) use attempt::fresh_token;
pub use builder::{DEFAULT_LEASE, DEFAULT_MAX_HOLD, DEFAULT_WAIT, Lock};
pub(crate) use claim::{Claim, Claimed};
pub use class::LockClass;
pub use degraded::{Degradable, DegradableGuard, DegradableLock, LocalGuard};
pub(crate) use give_back::{Doubt, GiveBack, Kind};
pub use guard::LockGuard;
pub(crate) use local::Locals;
pub use outcome::{Acquired, Busy, Extended, ForceReleased, LossReason, Released, TakenOver};
pub(crate) use permits::Lines;
pub use permits::{AcquiredPermit, Concurrency, Full, Permit};
pub(crate) use queue::{Queue, Queues, RaceContext, race};
pub(crate) use segmented::Segments;
pub use segmented::{MAX_SHARDS, Segmented, shard_name};
pub(crate) use tended::Tended;
pub(crate) use watchdog::{renewal_limit, retry_pause};
