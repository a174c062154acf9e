//! The client's half against a scripted server, in tokio's paused time: nothing here waits for real.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod bounds;
mod circuit;
mod hints;
mod holding;
mod repeating;
mod support;
