//! Concurrency limits: permits that are leased, renewed and lost as locks are, for so many holders at once.

mod attempt;
mod concurrency;
mod held;
mod line;
mod outcome;
mod permit;
mod wait;
mod watchdog;

pub use concurrency::Concurrency;
pub(crate) use held::HeldPermit;
pub(crate) use line::{Line, Lines};
pub use outcome::{AcquiredPermit, Full};
pub use permit::Permit;
pub(crate) use watchdog::tend;
