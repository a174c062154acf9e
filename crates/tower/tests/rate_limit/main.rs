//! The layer for limits, on a clock that the test steps.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod answers;
mod away;
#[cfg(feature = "axum")]
mod axum_routes;
mod cases;
mod on_redis;
mod service;
mod several;
mod support;
mod who;
