//! Tests against real servers. All waits are for conditions, with a bound; none is for time to pass.

#![allow(clippy::unwrap_used)]

mod clock;
mod cluster;
mod cutting;
mod dropping;
mod holding;
mod lifetime;
mod postgres;
mod replicated;
mod sentinel;
mod server;
mod support;
