//! HTTP middleware for [tower](https://docs.rs/tower): what a service does about limits, on the wire.
//!
//! - [`retry_after`]: the client's half. [`RetryAfterLayer`] comes back no earlier than a server told it, and gives
//!   up in good time.

pub mod retry_after;

pub use retry_after::RetryAfterLayer;
