//! The length of a lease, and how much of it the holder may count on.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::time::Uptime;

/// The shortest lease. Below it, the safety margin and one round trip leave nothing to work with.
pub const MIN_LEASE: Duration = Duration::from_millis(10);
/// The shortest lease that may be renewed: a third of it must leave room for a retry.
pub const MIN_RENEWED_LEASE: Duration = Duration::from_millis(100);
/// The longest lease. What is held for longer is not a lease.
pub const MAX_LEASE: Duration = Duration::from_secs(365 * 24 * 3600);

/// A lease length in whole milliseconds, between [`MIN_LEASE`] and [`MAX_LEASE`].
///
/// Choose three to ten times the expected work, or renew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    ms: u64,
}

impl Lease {
    /// Rounded down to whole milliseconds, so that the holder never counts on more than the server keeps.
    ///
    /// # Errors
    /// Outside of the bounds.
    pub fn new(length: Duration) -> Result<Self, Error> {
        let refuse = |why: &str| Err(Error::bad_argument("lease", format!("{length:?} {why}")));
        if length < MIN_LEASE {
            return refuse(&format!("is too short: at least {MIN_LEASE:?}"));
        }
        if length > MAX_LEASE {
            return refuse("is too long: at most 365 days");
        }
        Ok(Self { ms: u64::try_from(length.as_millis()).unwrap_or(u64::MAX) })
    }

    /// As [`new`](Self::new), for a lease that will be renewed.
    ///
    /// # Errors
    /// Outside of the bounds, or below [`MIN_RENEWED_LEASE`].
    pub fn renewed(length: Duration) -> Result<Self, Error> {
        if length >= MIN_LEASE && length < MIN_RENEWED_LEASE {
            let detail = format!(
                "{length:?} is too short to be renewed: at least {MIN_RENEWED_LEASE:?}, or turn renewal off"
            );
            return Err(Error::bad_argument("lease", detail));
        }
        Self::new(length)
    }

    /// In milliseconds, as the server counts.
    pub const fn as_millis(self) -> u64 {
        self.ms
    }

    /// As a duration.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }

    /// When a holder stops trusting a lease that was *sent for* at `sent`: `sent + lease − (lease/100 + 2 ms)`.
    ///
    /// Invariant 6: counted from before sending, so that it lies before the server's own end of the lease however
    /// long the request took; the margin (that of the Redlock description) covers the drift of two clocks.
    pub fn deadline(self, sent: Uptime) -> Uptime {
        sent.after(Duration::from_micros(self.ms * 990)).before(Duration::from_millis(2))
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_duration())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l44_l46_l10_leases_that_leave_nothing_are_refused() {
        for bad in [Duration::ZERO, Duration::from_micros(500), Duration::from_millis(2), Duration::MAX] {
            assert!(Lease::new(bad).is_err(), "{bad:?}");
        }
        assert!(Lease::new(MIN_LEASE).is_ok() && Lease::new(MAX_LEASE).is_ok());
    }

    #[test]
    fn l50_l115_a_renewed_lease_has_a_floor_of_its_own() {
        assert!(Lease::renewed(Duration::from_millis(300)).is_ok());
        let error = Lease::renewed(Duration::from_millis(30)).unwrap_err();
        assert!(error.to_string().contains("100ms"), "{error}");
    }

    #[test]
    fn the_deadline_lies_before_the_end_by_a_hundredth_and_two_milliseconds() {
        let sent = Uptime::from_micros(1_000_000);
        let lease = Lease::new(Duration::from_secs(10)).unwrap();
        assert_eq!(lease.deadline(sent).since(sent), Duration::from_millis(10_000 - 100 - 2));
        assert!(Lease::new(MIN_LEASE).unwrap().deadline(sent) > sent);
    }
}
