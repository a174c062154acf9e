//! What this client knows of the server's clock.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Clock, Timestamp, Uptime};
use parking_lot::Mutex;

/// Maps this machine's uptime to the server's wall clock. Learnt from every reply that carries server time.
#[derive(Debug)]
pub(crate) struct ServerClock {
    local: Arc<dyn Clock>,
    sample: Mutex<Option<Sample>>,
}

/// At `local` (the middle of a round trip) the server showed `server`, give or take `error`.
#[derive(Clone, Copy, Debug)]
struct Sample {
    local: Uptime,
    server: Timestamp,
    error: Duration,
}

/// A sample grows uncertain by this part of its age, so that newer ones are preferred in time.
const AGEING: u32 = 1000;

impl ServerClock {
    pub(crate) fn new(local: Arc<dyn Clock>) -> Self {
        Self { local, sample: Mutex::new(None) }
    }

    pub(crate) fn uptime(&self) -> Uptime {
        self.local.uptime()
    }

    /// The server's time now, as far as is known; before the first reply, this machine's own wall clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.at(self.local.uptime())
    }

    /// The same for a reading of the uptime that was just taken.
    pub(crate) fn at(&self, uptime: Uptime) -> Timestamp {
        match *self.sample.lock() {
            Some(sample) => sample.at(uptime),
            None => self.local.wall(),
        }
    }

    /// Learns from a reply that was asked for at `sent` and just came.
    ///
    /// A sample replaces the old one when it is at least as exact, or contradicts it (the clock was stepped).
    pub(crate) fn observe(&self, sent: Uptime, server: Timestamp) {
        let received = self.local.uptime();
        let error = received.since(sent) / 2;
        let new = Sample { local: sent.after(error), server, error };
        let mut sample = self.sample.lock();
        if sample.is_none_or(|old| new.error <= old.error_at(received) || new.contradicts(old)) {
            *sample = Some(new);
        }
    }

    /// A reply has told it.
    pub(crate) fn is_known(&self) -> bool {
        self.sample.lock().is_some()
    }

    /// By how much the server's clock is ahead of this machine's wall clock, in microseconds.
    pub(crate) fn ahead_of_wall_us(&self) -> i64 {
        let (server, wall) = (self.now().as_micros(), self.local.wall().as_micros());
        i64::try_from(i128::from(server) - i128::from(wall)).unwrap_or(i64::MAX)
    }
}

impl Sample {
    fn at(self, now: Uptime) -> Timestamp {
        self.server.after(now.since(self.local)).before(self.local.since(now))
    }

    fn error_at(self, now: Uptime) -> Duration {
        self.error + now.since(self.local) / AGEING
    }

    fn contradicts(self, old: Self) -> bool {
        let expected = old.at(self.local);
        let apart = self.server.since(expected).max(expected.since(self.server));
        apart > self.error + old.error_at(self.local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockkeeper_core::ManualClock;

    #[test]
    fn it_learns_prefers_exact_samples_and_follows_a_step() {
        let local = Arc::new(ManualClock::default());
        let clock = ServerClock::new(local.clone());
        let server = Timestamp::from_micros(5_000_000_000);
        clock.observe(local.uptime(), server);
        assert_eq!(clock.now(), server);

        let sent = local.uptime();
        local.advance(Duration::from_secs(2));
        clock.observe(sent, server.after(Duration::from_millis(300)));
        assert_eq!(
            clock.now(),
            server.after(Duration::from_secs(2)),
            "a slow reply does not spoil an exact sample"
        );

        // A slow reply again, so that only the contradiction speaks for it.
        for stepped in [server.after(Duration::from_secs(3600)), server.before(Duration::from_secs(3600))] {
            let sent = local.uptime();
            local.advance(Duration::from_millis(10));
            clock.observe(sent, stepped);
            assert_eq!(clock.now(), stepped.after(Duration::from_millis(5)));
        }
    }
}
