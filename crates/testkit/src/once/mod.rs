//! The contract of a store of idempotency, and generated histories of it.

pub mod ask;
pub mod conformance;
pub mod differential;
