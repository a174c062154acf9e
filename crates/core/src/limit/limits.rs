//! One limit or several, as callers give them.

use super::quota::{Limit, OPERATION};
use crate::error::Error;

/// The most limits that one check may be held to.
pub const MAX_LIMITS: usize = 8;

/// What a limiter can be made of: one limit, several, or text with several separated by `;`.
pub trait IntoLimits {
    /// The limits, in the order given.
    ///
    /// # Errors
    /// None; more than [`MAX_LIMITS`]; one of them is not valid; the same one twice.
    fn into_limits(self) -> Result<Vec<Limit>, Error>;
}

fn checked(limits: Vec<Limit>) -> Result<Vec<Limit>, Error> {
    let refuse = |detail: String| Err(Error::bad_argument(OPERATION, detail));
    let twice = limits.iter().enumerate().find(|(at, limit)| limits[..*at].contains(limit));
    match (limits.len(), twice) {
        (0, _) => refuse("no limit is given; for none at all say `unlimited`".to_owned()),
        (many, _) if many > MAX_LIMITS => refuse(format!("{many} limits at once; at most {MAX_LIMITS}")),
        (_, Some((_, limit))) => refuse(format!("`{limit}` is given twice")),
        _ => Ok(limits),
    }
}

impl IntoLimits for Limit {
    fn into_limits(self) -> Result<Vec<Limit>, Error> {
        Ok(vec![self])
    }
}

impl IntoLimits for Result<Limit, Error> {
    fn into_limits(self) -> Result<Vec<Limit>, Error> {
        self.map(|limit| vec![limit])
    }
}

impl IntoLimits for Vec<Limit> {
    fn into_limits(self) -> Result<Vec<Limit>, Error> {
        checked(self)
    }
}

impl IntoLimits for &[Limit] {
    fn into_limits(self) -> Result<Vec<Limit>, Error> {
        checked(self.to_vec())
    }
}

impl<const N: usize> IntoLimits for [Limit; N] {
    fn into_limits(self) -> Result<Vec<Limit>, Error> {
        checked(self.to_vec())
    }
}

impl<const N: usize> IntoLimits for [Result<Limit, Error>; N] {
    fn into_limits(self) -> Result<Vec<Limit>, Error> {
        checked(self.into_iter().collect::<Result<_, _>>()?)
    }
}

impl IntoLimits for &str {
    fn into_limits(self) -> Result<Vec<Limit>, Error> {
        checked(self.split(';').map(str::parse).collect::<Result<_, _>>()?)
    }
}

impl IntoLimits for String {
    fn into_limits(self) -> Result<Vec<Limit>, Error> {
        self.as_str().into_limits()
    }
}
