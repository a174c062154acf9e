//! Limits: the arms of their tests, the contract that every store keeps, and histories compared between a store and the
//! model.

mod arm;
pub mod conformance;
pub mod differential;
mod plant;

pub use arm::{LimitArm, keys, quota};
pub use plant::Plant;
