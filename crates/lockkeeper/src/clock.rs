//! The real clock.

use std::future::Future as _;

use lockkeeper_core::{Clock, Timestamp, Uptime};

/// This machine's clocks. The uptime counts suspended time: `CLOCK_BOOTTIME` on Linux and Android, `CLOCK_MONOTONIC`
/// on Apple systems, the performance counter on Windows. Elsewhere it is the monotonic clock, which may stand still
/// while the machine sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn uptime(&self) -> Uptime {
        uptime()
    }

    fn wall(&self) -> Timestamp {
        wall()
    }
}

/// Read as it is: the memory store asks for it on every check, and a detour by way of [`std::time`] is a third of the cost.
#[cfg(unix)]
fn wall() -> Timestamp {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::Realtime);
    let (seconds, nanos) =
        (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    Timestamp::from_micros(seconds * 1_000_000 + nanos / 1000)
}

#[cfg(not(unix))]
fn wall() -> Timestamp {
    use std::time::{SystemTime, UNIX_EPOCH};
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::from_micros(since.map_or(0, lockkeeper_core::time::micros_of))
}

#[cfg(unix)]
fn uptime() -> Uptime {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    let (seconds, nanos) =
        (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    Uptime::from_micros(seconds * 1_000_000 + nanos / 1000)
}

#[cfg(not(unix))]
fn uptime() -> Uptime {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Uptime::from_micros(1_000_000 + lockkeeper_core::time::micros_of(START.elapsed()))
}

/// Waits until `clock` shows `at`; looks at the clock at least every second, because timers do not count suspended
/// time, and whenever a clock that is moved by hand was moved.
pub(crate) async fn sleep_until(clock: &dyn Clock, at: Uptime) {
    const LONGEST: std::time::Duration = std::time::Duration::from_secs(1);
    loop {
        let left = at.since(clock.uptime());
        if left.is_zero() {
            return;
        }
        let mut nap = std::pin::pin!(tokio::time::sleep(left.min(LONGEST)));
        std::future::poll_fn(|context| {
            clock.wake_when_moved(context.waker());
            if clock.uptime() >= at { std::task::Poll::Ready(()) } else { nap.as_mut().poll(context) }
        })
        .await;
    }
}
