//! HTTP middleware of Lockkeeper for tower.

pub mod client_address;

pub use client_address::{ClientAddress, ForwardedHeader, NoAddress, SingleAddressWatch};
