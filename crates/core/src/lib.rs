//! Decisions, contracts and values of Lockkeeper.
//!
//! This crate changes rarely. Depend on it to write a store of your own; to *use* locks depend on `lockkeeper`.
//!
//! Invariants kept here (numbers as in `ARCHITECTURE.md`):
//!
//! * **1.** Nothing in this crate reads a clock, spawns a task or does IO. Time is an argument.
//! * **2.** A store operation is one [`Decision`]: a pure function of state, request and time.
//! * **3.** The Rust function is the specification; a script in another crate is its port.

pub mod decision;
pub mod error;
pub mod idempotency;
pub mod key;
pub mod limit;
pub mod lock;
pub mod memory;
pub mod time;
mod url_safe;

pub use decision::{Answer, Apply, Decision, InTime, State, TooLate, WrongType, decide_within};
pub use error::{Error, ErrorKind, Refusal};
pub use key::{Key, Keys, Prefix};
pub use memory::MemoryStore;
pub use time::{Clock, ManualClock, Timestamp, Uptime};
