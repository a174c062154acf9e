//! The ports: for each decision its script, its keys and arguments, and how its reply is read.

mod idempotency;
mod limit;
mod lock;
mod permits;

#[cfg(test)]
mod tests;

use crate::reply::Malformed;

const UNKNOWN_STATUS: Malformed = Malformed("an unknown status");
