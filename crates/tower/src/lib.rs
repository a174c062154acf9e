//! HTTP middleware of Lockkeeper for [tower](https://docs.rs/tower): what services and clients do about limits, on the
//! wire.
//!
//! - [`rate_limit`]: the server's half. [`RateLimitLayer`] refuses requests over their limits, and tells clients when to
//!   come back. Feature `rate-limit`, on by default; `axum` for its route patterns and connect info.
//! - [`idempotency`]: the server's half of retries. [`IdempotencyLayer`] runs a request once per `Idempotency-Key`, and
//!   replays its answer. Feature `idempotency`, on by default; **with axum, `axum` too**: without it, nested routers share
//!   their records.
//! - [`retry_after`]: the client's half. [`RetryAfterLayer`] comes back no earlier than a server told it, and gives up in
//!   good time.
//! - [`client_address`]: who asks, behind proxies.

#[cfg(any(feature = "rate-limit", feature = "idempotency"))]
pub(crate) mod caller;
pub mod client_address;
#[cfg(feature = "idempotency")]
pub mod idempotency;
#[cfg(any(feature = "rate-limit", feature = "idempotency"))]
pub(crate) mod problem;
#[cfg(feature = "rate-limit")]
pub mod rate_limit;
pub mod retry_after;
#[cfg(any(feature = "rate-limit", feature = "idempotency"))]
pub(crate) mod seldom;

pub use client_address::{ClientAddress, ForwardedHeader, NoAddress, SingleAddressWatch};
#[cfg(feature = "idempotency")]
pub use idempotency::IdempotencyLayer;
#[cfg(feature = "rate-limit")]
pub use rate_limit::RateLimitLayer;
pub use retry_after::RetryAfterLayer;
