//! The demonstration inside one process: tasks, and a counter in memory.

use std::time::Instant;

use lockkeeper::{Keeper, Lock};
use tracing::subscriber::NoSubscriber;

use super::counter::Counter;
use super::episodes::{self, Pair};
use super::metrics::Metrics;
use super::outcome::{Counted, Outcome, Stalled};
use super::progress::Progress;
use super::stall::{self, FIRST, LATE, Resources, SECOND};
use super::work::{Load, count};

pub(super) async fn run(url: &str, load: Load, show: bool, metrics: &Metrics) -> anyhow::Result<Outcome> {
    // On this thread, so that the expected warning of a lost lock can be held back.
    let keeper = Keeper::builder().url(url)?.on_current_runtime().connect().await?;
    let lock = keeper.lock_class("counter")?.lock(super::unique_name())?;
    let (without_lock, under_lock) =
        (counted(None, load, show).await?, counted(Some(&lock), load, show).await?);
    let stalled = stalled(&lock).await?;
    let store = keeper.health().await.address;
    keeper.close(std::time::Duration::from_secs(1)).await;
    let (line, trouble) = episodes::run(Pair::in_memory().await?, metrics).await?;
    let Load { workers, rounds } = load;
    Ok(Outcome { store, processes: 1, workers, rounds, without_lock, under_lock, line, stalled, trouble })
}

async fn counted(lock: Option<&Lock>, load: Load, show: bool) -> anyhow::Result<Counted> {
    let counter = Counter::in_memory();
    let mut progress = Progress::new(load.updates(), show);
    let started = Instant::now();
    let tally = count(&counter, lock, load, |updates| progress.add(updates)).await?;
    let took = started.elapsed();
    Ok(Counted { updates: tally.updates, counter: counter.read()?, took, longest_wait: tally.longest_wait })
}

async fn stalled(lock: &Lock) -> anyhow::Result<Stalled> {
    let _quiet = super::quiet().then(|| tracing::subscriber::set_default(NoSubscriber::default()));
    let mut resources = Resources::default();
    let first = stall::take_briefly(lock).await?;
    resources.write(first.fence()?.get(), FIRST);
    let reason = first.lost().await;
    let second = stall::take_over(lock).await?;
    resources.write(second.fence()?.get(), SECOND);
    let late = resources.write(first.fence()?.get(), LATE);
    let ended = resources.end((first.fence()?.get(), reason.to_string()), second.fence()?.get(), late);
    second.release().await?;
    Ok(ended)
}
