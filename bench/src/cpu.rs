//! Processor time, as systems account for it.

use std::time::{Duration, Instant};

use anyhow::Result;
use lockkeeper_faults::RedisServer;
use rustix::time::{ClockId, clock_gettime};

use crate::server;

/// What this process and the server have used so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    at: Instant,
    client: Duration,
    server: Duration,
}

/// Percent of one core over a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) client: f64,
    pub(crate) server: f64,
}

impl Reading {
    pub(crate) fn now(server: &RedisServer) -> Result<Self> {
        let server = server_time(server)?;
        Ok(Self { at: Instant::now(), client: client_time(), server })
    }

    pub(crate) fn load_since(&self, earlier: &Self) -> Load {
        let wall = self.at.duration_since(earlier.at).as_secs_f64();
        let percent = |now: Duration, then: Duration| (now.saturating_sub(then)).as_secs_f64() / wall * 100.0;
        Load { client: percent(self.client, earlier.client), server: percent(self.server, earlier.server) }
    }
}

/// All threads of this process, user and system.
pub(crate) fn client_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// What the server says that `getrusage` says; finer than the ticks of `/proc/PID/stat`.
fn server_time(server: &RedisServer) -> Result<Duration> {
    let user = server::info(server, "cpu", "used_cpu_user")?;
    let system = server::info(server, "cpu", "used_cpu_sys")?;
    Ok(Duration::from_secs_f64(user + system))
}
