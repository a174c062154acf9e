//! What runs once per key: on the memory store under a clock that is stepped, on a real server, and in processes that are
//! killed and stopped.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "../support/mod.rs"]
mod support;

mod common;
mod drops;
mod faults;
mod fingerprints;
mod memory;
mod policies;
mod process;
mod run;
mod server;
mod settings;
mod waiting;
