//! Idempotency: an operation runs once per key, and whoever comes later is answered what it answered.

mod attempt;
mod backlog;
mod begin;
mod builder;
pub mod fingerprint;
mod finish;
mod held;
mod json;
mod line;
mod list;
mod operate;
mod outcome;
mod run;
#[cfg(test)]
mod tests;
mod wait;
mod watchdog;

pub use attempt::Attempt;
pub use builder::{DEFAULT_MAX_RESULT, DEFAULT_ONCE_LEASE, DEFAULT_RETENTION, Once};
pub(crate) use finish::{FINISH_FOR, Finish};
pub(crate) use held::HeldAttempt;
pub(crate) use line::{Line, Lines};
pub use list::{OnceCursor, OncePage, OnceView};
pub use outcome::{Begun, Completed, Replay, RunError};
pub(crate) use watchdog::tend;
