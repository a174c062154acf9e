//! The clock that all processes of a machine share.

use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC`, in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // It counts from the start of the machine, so neither part is negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
