//! What may come of asking for a permit: answers that are values, not errors.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, Key};

use super::permit::Permit;

/// The answer to an acquisition.
#[derive(Debug)]
#[must_use = "a permit that is not looked at is released at once"]
pub enum AcquiredPermit {
    /// It is yours until its lease ends.
    Held(Permit),
    /// As many as may be are held by others.
    Full(Full),
}

/// As many permits as may be are held, as of the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// Whose permits.
    pub key: Key,
    /// How many are held: at least the limit; more where others ask with a greater one.
    pub held: u32,
    /// The limit that was asked with.
    pub limit: u32,
    /// When the first of their leases ends, unless it is renewed or released before. Never zero.
    pub retry_after: Duration,
}

impl AcquiredPermit {
    /// For those who want full as an error.
    ///
    /// # Errors
    /// Of kind `Busy`, with how many are held.
    pub fn or_full(self) -> Result<Permit, Error> {
        match self {
            Self::Held(permit) => Ok(permit),
            Self::Full(full) => {
                Err(Error::new(ErrorKind::Busy, "acquire_permit", full.to_string()).with_key(&full.key))
            }
        }
    }

    /// The permit, if it is held.
    pub fn held(self) -> Option<Permit> {
        match self {
            Self::Held(permit) => Some(permit),
            Self::Full(_) => None,
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, limit, retry_after, .. } = self;
        write!(f, "{held} of {limit} permits are held, the first lease ends in {retry_after:?}")
    }
}
