//! The contract of a store of permits, and generated histories of them.

pub mod conformance;
pub mod differential;
