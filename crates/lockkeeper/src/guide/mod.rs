//! The guide: what locks, limits and idempotency promise, and how to live with what they cannot promise.

#[doc = include_str!("leases.md")]
pub mod leases {}

#[doc = include_str!("waiting.md")]
pub mod waiting {}

#[doc = include_str!("concurrency.md")]
pub mod concurrency {}

#[doc = include_str!("limits.md")]
pub mod limits {}

#[doc = include_str!("idempotency.md")]
pub mod idempotency {}

#[doc = include_str!("fencing.md")]
pub mod fencing {}

#[doc = include_str!("durability.md")]
pub mod durability {}

#[doc = include_str!("quorum.md")]
pub mod quorum {}

#[doc = include_str!("failures.md")]
pub mod failures {}

#[doc = include_str!("sentinel.md")]
pub mod sentinel {}

#[doc = include_str!("cluster.md")]
pub mod cluster {}

#[doc = include_str!("operations.md")]
pub mod operations {}

#[doc = include_str!("access.md")]
pub mod access {}

#[doc = include_str!("telemetry.md")]
pub mod telemetry {}
