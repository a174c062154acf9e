//! Locks, permits, limits and once-records on a cluster of real servers: everyday use, moving slots, failovers, and
//! several keys over several slots.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "../support/mod.rs"]
mod support;

mod common;
mod down;
mod everyday;
mod failover;
mod half_way;
mod moving;
mod ordered;
mod storms;
