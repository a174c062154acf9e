//! The workers: each adds one to the counter, again and again, under the lock or without it.

use std::time::{Duration, Instant};

use lockkeeper::Lock;
use tokio::task::JoinSet;

use super::counter::Counter;

/// How long a worker waits for the lock before the demonstration counts as failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// How much is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) workers: u32,
    pub(super) rounds: u32,
}

impl Load {
    pub(super) fn updates(self) -> u64 {
        u64::from(self.workers) * u64::from(self.rounds)
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) updates: u64,
    pub(super) longest_wait: Duration,
}

/// Lets all workers loose on the counter; `done` is called with each finished worker's number of updates.
pub(super) async fn count(
    counter: &Counter,
    lock: Option<&Lock>,
    load: Load,
    mut done: impl FnMut(u64),
) -> anyhow::Result<Tally> {
    let mut workers = JoinSet::new();
    for _ in 0..load.workers {
        workers.spawn(worker(counter.clone(), lock.map(|lock| lock.clone().wait(PATIENCE)), load.rounds));
    }
    let mut all = Tally::default();
    while let Some(tally) = workers.join_next().await {
        let tally = tally??;
        all.updates += tally.updates;
        all.longest_wait = all.longest_wait.max(tally.longest_wait);
        done(tally.updates);
    }
    Ok(all)
}

async fn worker(counter: Counter, lock: Option<Lock>, rounds: u32) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    for _ in 0..rounds {
        let asked = Instant::now();
        let guard = match &lock {
            Some(lock) => Some(lock.acquire().await?.or_busy()?),
            None => None,
        };
        tally.longest_wait = tally.longest_wait.max(asked.elapsed());
        add_one(&counter).await?;
        tally.updates += 1;
        if let Some(guard) = guard {
            guard.release().await?;
        }
    }
    Ok(tally)
}

/// Reads, gives way as any real work does, and writes.
async fn add_one(counter: &Counter) -> std::io::Result<()> {
    let value = counter.read()?;
    tokio::task::yield_now().await;
    counter.write(value + 1)
}
