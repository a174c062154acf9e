//! Timestamps of the server, readings of this machine's uptime, and the clock that tests step by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;

/// A moment on a *server's* wall clock: microseconds since the Unix epoch.
///
/// Decisions use it and nothing else. It may jump when somebody sets that clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// A reading of *this machine's* uptime: microseconds since an arbitrary origin.
///
/// It never goes back and counts the time that the machine was suspended (see [`Clock::uptime`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uptime(u64);

macro_rules! micros {
    ($name:ident) => {
        impl $name {
            /// The largest value: later than everything.
            pub const MAX: Self = Self(u64::MAX);

            /// From microseconds.
            pub const fn from_micros(us: u64) -> Self {
                Self(us)
            }

            /// In microseconds.
            pub const fn as_micros(self) -> u64 {
                self.0
            }

            /// In whole milliseconds, rounded down.
            pub const fn as_millis(self) -> u64 {
                self.0 / 1000
            }

            /// Later by `by`; saturates.
            #[must_use]
            pub fn after(self, by: Duration) -> Self {
                Self(self.0.saturating_add(micros_of(by)))
            }

            /// Earlier by `by`; saturates at zero.
            #[must_use]
            pub fn before(self, by: Duration) -> Self {
                Self(self.0.saturating_sub(micros_of(by)))
            }

            /// The time from `earlier` to `self`, zero when `earlier` is later.
            pub fn since(self, earlier: Self) -> Duration {
                Duration::from_micros(self.0.saturating_sub(earlier.0))
            }
        }
    };
}
micros!(Timestamp);
micros!(Uptime);

/// A duration in whole microseconds, saturating.
pub fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// What this process knows of time. One is injected into a keeper and used everywhere.
pub trait Clock: Send + Sync + std::fmt::Debug + 'static {
    /// Uptime of this machine. Contract: never goes back, and counts suspended time where the system can
    /// (`CLOCK_BOOTTIME` on Linux). A lease runs out while a laptop sleeps; a guard must see that.
    fn uptime(&self) -> Uptime;

    /// This machine's wall clock. It decides nothing that others see; the memory store, which *is* a server, uses it.
    fn wall(&self) -> Timestamp;

    /// Wakes `waker` when the clock is moved by hand. Clocks that run by themselves do nothing here.
    fn wake_when_moved(&self, _waker: &Waker) {}
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn uptime(&self) -> Uptime {
        (**self).uptime()
    }
    fn wall(&self) -> Timestamp {
        (**self).wall()
    }
    fn wake_when_moved(&self, waker: &Waker) {
        (**self).wake_when_moved(waker);
    }
}

/// A clock that stands still until somebody moves it. For tests: yours and ours.
#[derive(Debug)]
pub struct ManualClock {
    uptime_us: AtomicU64,
    wall_us: AtomicU64,
    wakers: Mutex<Vec<Waker>>,
}

impl ManualClock {
    /// A clock whose wall shows `wall` and whose uptime is one hour.
    pub fn new(wall: Timestamp) -> Self {
        Self {
            uptime_us: AtomicU64::new(3_600_000_000),
            wall_us: AtomicU64::new(wall.as_micros()),
            wakers: Mutex::new(Vec::new()),
        }
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, by: Duration) {
        self.uptime_us.fetch_add(micros_of(by), Ordering::SeqCst);
        self.wall_us.fetch_add(micros_of(by), Ordering::SeqCst);
        self.wake();
    }

    /// Sets the wall clock alone, forwards or back, as an administrator or NTP would.
    pub fn set_wall(&self, to: Timestamp) {
        self.wall_us.store(to.as_micros(), Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Default for ManualClock {
    /// Starts at 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::new(Timestamp::from_micros(1_767_225_600_000_000))
    }
}

impl Clock for ManualClock {
    fn uptime(&self) -> Uptime {
        Uptime(self.uptime_us.load(Ordering::SeqCst))
    }
    fn wall(&self) -> Timestamp {
        Timestamp(self.wall_us.load(Ordering::SeqCst))
    }
    fn wake_when_moved(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Timestamp::MAX.after(Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(Uptime::from_micros(5).before(Duration::MAX), Uptime::from_micros(0));
        assert_eq!(Uptime::from_micros(5).since(Uptime::from_micros(9)), Duration::ZERO);
    }

    #[test]
    fn a_manual_clock_moves_only_by_hand_and_its_wall_can_step_alone() {
        let clock = ManualClock::default();
        let (up, wall) = (clock.uptime(), clock.wall());
        clock.advance(Duration::from_millis(7));
        assert_eq!(clock.uptime().since(up), Duration::from_millis(7));
        assert_eq!(clock.wall().since(wall), Duration::from_millis(7));
        clock.set_wall(Timestamp::from_micros(1));
        assert_eq!(clock.uptime().since(up), Duration::from_millis(7));
        assert_eq!(clock.wall().as_micros(), 1);
    }
}
