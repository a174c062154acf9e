//! Locks: how one is described, taken, waited for, held, renewed and given back.

mod attempt;
mod builder;
mod give_back;
mod guard;
mod held;
mod outcome;
mod queue;
mod swap;
mod tenure;
mod wait;
mod watchdog;

pub use builder::{DEFAULT_LEASE, DEFAULT_MAX_HOLD, DEFAULT_WAIT, Lock};
pub(crate) use give_back::GiveBack;
pub use guard::LockGuard;
pub(crate) use held::Held;
pub use outcome::{Acquired, Busy, Extended, ForceReleased, LossReason, Released};
pub(crate) use queue::{Queue, Queues, RaceContext, race};
pub(crate) use tenure::Tenure;
pub(crate) use watchdog::tend;
