//! How many may hold a permit at once.

use std::fmt;

use crate::error::Error;

/// The most permits of one name.
pub const MAX_PERMITS: u32 = 10_000;

/// How many may hold a permit of a name at once: 1 to [`MAX_PERMITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitLimit(u32);

impl PermitLimit {
    /// # Errors
    /// Zero, or more than [`MAX_PERMITS`].
    pub fn new(limit: u32) -> Result<Self, Error> {
        if (1..=MAX_PERMITS).contains(&limit) {
            return Ok(Self(limit));
        }
        let detail = format!("{limit} permits at once: at least 1, at most {MAX_PERMITS}");
        Err(Error::bad_argument("concurrency", detail))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for PermitLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_bounded_and_the_refusal_names_both() {
        for bad in [0, MAX_PERMITS + 1, u32::MAX] {
            let error = PermitLimit::new(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad} permits")) && error.contains("10000"), "{error}");
        }
        assert!(PermitLimit::new(1).is_ok() && PermitLimit::new(MAX_PERMITS).is_ok());
    }
}
