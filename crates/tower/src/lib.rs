//! HTTP middleware of Lockkeeper for tower.

pub mod client_address;
pub mod rate_limit;

pub use client_address::{ClientAddress, ForwardedHeader, NoAddress, SingleAddressWatch};
pub use rate_limit::RateLimitLayer;
