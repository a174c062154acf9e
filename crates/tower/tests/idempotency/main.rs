//! The layer for idempotency keys, under axum.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod away;
mod concurrent;
mod endings;
mod hostile;
mod killed;
mod on_redis;
mod outcomes;
mod recording;
mod refusals;
mod replay;
mod routes;
mod scope;
mod service;
mod shutdown;
mod sizes;
mod slow;
mod support;
mod takeovers;
