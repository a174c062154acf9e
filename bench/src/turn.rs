//! What one arm did while it was its turn.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cpu::client_time;

/// Cycles, and what they took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) cycles: u64,
    pub(crate) elapsed: Duration,
    /// Of all threads of this process; the server's is not in it.
    pub(crate) cpu: Duration,
}

impl Turn {
    /// Runs `work`, which answers the number of its cycles.
    pub(crate) fn of(work: impl FnOnce() -> Result<u64>) -> Result<Self> {
        let (started, cpu) = (Instant::now(), client_time());
        let cycles = work()?;
        Ok(Self { cycles, elapsed: started.elapsed(), cpu: client_time().saturating_sub(cpu) })
    }

    /// The time of one cycle in nanoseconds.
    pub(crate) fn nanoseconds(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.cycles as f64
    }

    /// This process's processor time of one cycle in nanoseconds.
    pub(crate) fn cpu_nanoseconds(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.cycles as f64
    }

    /// Cycles per second.
    pub(crate) fn rate(&self) -> f64 {
        self.cycles as f64 / self.elapsed.as_secs_f64()
    }
}
