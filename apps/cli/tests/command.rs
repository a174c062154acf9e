//! The command as its users see it: the built program, real servers, real processes.
//!
//! Tests named after a number show a known case of locks on the command line. Nothing here sleeps and hopes: every
//! step waits for a condition, with a bound.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not inside the test functions")]

#[path = "command/bench.rs"]
mod bench;
#[path = "command/cluster.rs"]
mod cluster;
#[path = "command/codes.rs"]
mod codes;
#[path = "command/durability.rs"]
mod durability;
#[path = "command/force.rs"]
mod force;
#[path = "command/holding.rs"]
mod holding;
#[path = "command/limit_watching.rs"]
mod limit_watching;
#[path = "command/limits.rs"]
mod limits;
#[path = "command/listing.rs"]
mod listing;
#[path = "command/loss.rs"]
mod loss;
#[path = "command/once.rs"]
mod once;
#[path = "command/sentinel.rs"]
mod sentinel;
#[path = "command/signals.rs"]
mod signals;
#[path = "command/stopping.rs"]
mod stopping;
#[path = "command/terminal.rs"]
mod terminal;
#[path = "command/watching.rs"]
mod watching;
