//! The runtimes that arms run on, and the loop that every arm is.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::runtime::{Builder, Runtime};

use crate::arm::Arm;

/// Which runtime; both arms of a comparison use the same one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flavour {
    /// `multi_thread` with two workers.
    TwoWorkers,
    /// `current_thread`.
    OneThread,
}

impl Flavour {
    pub(crate) fn start(self) -> Result<Runtime> {
        let mut builder = match self {
            Self::TwoWorkers => Builder::new_multi_thread(),
            Self::OneThread => Builder::new_current_thread(),
        };
        Ok(builder.worker_threads(2).enable_all().build()?)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TwoWorkers => "multi_thread, 2 workers",
            Self::OneThread => "current_thread",
        }
    }
}

/// Runs `work` as a task of the runtime, as an application would, and waits for it.
pub(crate) fn on<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    runtime.block_on(runtime.spawn(work))?
}

/// Repeats the arm's cycle for `turn`; answers how often.
pub(crate) async fn cycles(turn: Duration, mut arm: impl Arm) -> Result<u64> {
    let started = Instant::now();
    let mut done = 0;
    loop {
        arm.cycle(done).await?;
        done += 1;
        if started.elapsed() >= turn {
            return Ok(done);
        }
    }
}
