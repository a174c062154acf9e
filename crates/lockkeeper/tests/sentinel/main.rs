//! Locks, limits and what runs once, where Sentinels say which server is the primary.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "../support/mod.rs"]
mod support;

mod common;
mod connecting;
mod fake;
mod lost;
mod old_primary;
mod planned;
mod unplanned;
mod voices;
