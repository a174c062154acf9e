//! The flash sale on both stores: inside this process, and on a real Redis.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod buying;
mod losing;
mod naive;
mod shards;
mod support;
mod workers;
