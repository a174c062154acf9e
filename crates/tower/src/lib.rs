//! HTTP middleware of Lockkeeper for [tower](https://docs.rs/tower): what services and clients do about limits, on the
//! wire.
//!
//! - [`client_address`]: who asks, behind proxies.
//! - [`retry_after`]: the client's half. [`RetryAfterLayer`] comes back no earlier than a server told it, and gives up in
//!   good time.

pub mod client_address;
pub mod retry_after;

pub use client_address::{ClientAddress, ForwardedHeader, NoAddress, SingleAddressWatch};
pub use retry_after::RetryAfterLayer;
