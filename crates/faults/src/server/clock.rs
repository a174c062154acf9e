//! The wall clock of a server in a test's hands. The clock stands still: it moves when the test says so,
//! which makes expiry a thing that can be tested to the millisecond.
//!
//! The time goes to the server through a file that libfaketime reads at each look at the clock. Two details
//! were found by experiment (libfaketime 0.9.10, Redis 6.2 and 7.0, Valkey 8.1). The library reads the fraction as
//! a floating-point number and cuts it off, so a third of all times came out one microsecond early, and one
//! millisecond with it; half a microsecond more (`123456500`) made every one exact. And the file must be
//! replaced by a rename: a file that is rewritten in place is at times read while it is empty or
//! half-written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::error::ServerError;
use super::libfaketime::find_library;

/// A frozen wall clock for one or more servers, given to
/// [`ServerBuilder::faketime`](super::ServerBuilder::faketime).
///
/// Clones show and set the same clock. The resolution is one microsecond; the time may be set backwards. Only
/// the wall clock is faked, the monotonic clock runs on. Under it a server takes its memory from the C library,
/// whatever else it is linked with.
#[derive(Clone, Debug)]
pub struct FakeClock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: TempDir,
    library: PathBuf,
    micros: Mutex<u64>,
}

impl FakeClock {
    /// A clock that stands at this time, in microseconds since the Unix epoch.
    pub fn new(epoch_micros: u64) -> Result<FakeClock, ServerError> {
        let library = find_library().ok_or(ServerError::FakeTimeMissing)?;
        let folder = tempfile::Builder::new()
            .prefix("lockkeeper-clock-")
            .tempdir()
            .map_err(ServerError::io("making a folder for the clock"))?;
        let clock = FakeClock { inner: Arc::new(Inner { folder, library, micros: Mutex::new(0) }) };
        clock.set(epoch_micros)?;
        Ok(clock)
    }

    /// Sets the clock, in microseconds since the Unix epoch. The next command that a server runs sees this
    /// time.
    pub fn set(&self, epoch_micros: u64) -> Result<(), ServerError> {
        let mut micros = self.lock();
        self.write(epoch_micros)?;
        *micros = epoch_micros;
        Ok(())
    }

    /// Moves the clock forward, by whole microseconds, and answers the new time.
    pub fn advance(&self, by: Duration) -> Result<u64, ServerError> {
        let mut micros = self.lock();
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let then = micros.saturating_add(by);
        self.write(then)?;
        *micros = then;
        Ok(then)
    }

    /// What the clock shows, in microseconds since the Unix epoch.
    pub fn now(&self) -> u64 {
        *self.lock()
    }

    pub(crate) fn library(&self) -> &Path {
        &self.inner.library
    }

    pub(crate) fn time_file(&self) -> PathBuf {
        self.inner.folder.path().join("time")
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.inner.micros.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, epoch_micros: u64) -> Result<(), ServerError> {
        self.replace_file(&file_text(epoch_micros)).map_err(ServerError::io("writing the time file"))
    }

    fn replace_file(&self, text: &str) -> io::Result<()> {
        let next = self.inner.folder.path().join("time.next");
        fs::write(&next, text)?;
        fs::rename(&next, self.time_file())
    }
}

/// Seconds and nanoseconds, in the middle of the microsecond.
fn file_text(epoch_micros: u64) -> String {
    format!("{}.{:06}500", epoch_micros / 1_000_000, epoch_micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::file_text;

    #[test]
    fn the_file_holds_the_middle_of_the_microsecond() {
        assert_eq!(file_text(1_704_164_645_000_007), "1704164645.000007500");
    }
}
