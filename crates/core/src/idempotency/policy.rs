//! How long records are kept, and what becomes of a claim whose executor went away.

use std::time::Duration;

use crate::error::Error;
use crate::time::micros_of;

/// The shortest retention.
pub const MIN_RETENTION: Duration = Duration::from_secs(1);
/// The longest retention.
pub const MAX_RETENTION: Duration = Duration::from_secs(365 * 24 * 3600);
/// The longest time for which an unknown outcome is held.
pub const MAX_HELD_UNKNOWN: Duration = MAX_RETENTION;

const OPERATION: &str = "once";

/// For how long a key is remembered after its operation has ended: [`MIN_RETENTION`] to [`MAX_RETENTION`].
///
/// A request that comes later runs afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Retention(Duration);

impl Retention {
    /// # Errors
    /// Outside of the bounds.
    pub fn new(length: Duration) -> Result<Self, Error> {
        if (MIN_RETENTION..=MAX_RETENTION).contains(&length) {
            return Ok(Self(length));
        }
        let detail = format!("{length:?} of retention: at least {MIN_RETENTION:?}, at most 365 days");
        Err(Error::bad_argument(OPERATION, detail))
    }

    /// Its length.
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    /// In microseconds, as a record has it.
    pub fn as_micros(self) -> u64 {
        micros_of(self.0)
    }
}

/// What becomes of a claim whose lease ended before its operation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCrash {
    /// The next caller runs it again. For operations that may be repeated, because the resource refuses the second effect.
    #[default]
    Rerun,
    /// Nobody runs it for so long: whether it had its effect is *unknown*, until an operator resolves it or the time is
    /// over. For operations that must not be repeated.
    Hold(Duration),
}

impl OnCrash {
    /// # Errors
    /// Held for no time, or for longer than [`MAX_HELD_UNKNOWN`].
    pub fn checked(self) -> Result<Self, Error> {
        match self {
            Self::Hold(length) if micros_of(length) == 0 || length > MAX_HELD_UNKNOWN => {
                let detail =
                    format!("an unknown outcome held for {length:?}: more than zero, at most 365 days");
                Err(Error::bad_argument(OPERATION, detail))
            }
            policy => Ok(policy),
        }
    }

    /// How long an unknown outcome is held, in microseconds; zero for none.
    pub fn hold_micros(self) -> u64 {
        match self {
            Self::Rerun => 0,
            Self::Hold(length) => micros_of(length).clamp(1, micros_of(MAX_HELD_UNKNOWN)),
        }
    }

    /// The policy of a record.
    pub(super) fn of_micros(hold: u64) -> Self {
        if hold == 0 { Self::Rerun } else { Self::Hold(Duration::from_micros(hold)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retentions_and_holds_are_bounded_and_the_refusal_names_the_bound() {
        for bad in [
            Duration::ZERO,
            Duration::from_millis(999),
            MAX_RETENTION + Duration::from_nanos(1),
            Duration::MAX,
        ] {
            let error = Retention::new(bad).unwrap_err().to_string();
            assert!(error.contains("1s") && error.contains("365 days"), "{error}");
        }
        assert!(Retention::new(MIN_RETENTION).is_ok() && Retention::new(MAX_RETENTION).is_ok());
        for bad in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            assert!(OnCrash::Hold(bad).checked().is_err(), "{bad:?}");
        }
        assert!(OnCrash::Hold(MAX_HELD_UNKNOWN).checked().is_ok());
    }
}
