//! Durability levels: on a primary with replicas that replicate through proxies, and on a server that flushes its file.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "../support/mod.rs"]
mod support;

mod common;
mod fsync;
mod levels;
mod permits;
mod pool;
mod renewing;
mod unsupported;
mod waiting;
