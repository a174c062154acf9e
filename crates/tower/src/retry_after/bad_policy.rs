//! Settings that cannot be.

use std::fmt;
use std::ops::RangeInclusive;

/// A setting is outside its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {value} is not within {bounds}")]
pub struct BadPolicy {
    name: &'static str,
    value: String,
    bounds: String,
}

/// Not a number is within nothing.
pub(crate) fn within<T: PartialOrd + Copy + fmt::Debug>(
    name: &'static str,
    value: T,
    bounds: RangeInclusive<T>,
) -> Result<(), BadPolicy> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let bounds = format!("{:?} and {:?}", bounds.start(), bounds.end());
    Err(BadPolicy { name, value: format!("{value:?}"), bounds })
}
