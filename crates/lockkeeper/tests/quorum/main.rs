//! Locks on a majority of independent servers: real ones, each behind a proxy.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "these are tests")]

mod failing;
mod fences;
mod five;
mod forgetting;
mod late;
mod paused;
mod refusing;
mod storms;
#[path = "../support/mod.rs"]
mod support;
mod views;
mod voting;
