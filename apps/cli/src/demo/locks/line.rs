//! Waiting in line: the tasks of two keepers want one lock; how it is handed on, and how long each waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper::core::Error;
use lockkeeper::{DEFAULT_LEASE, Lock};
use tokio::task::JoinSet;

use super::episodes::Pair;
use super::metrics::Metrics;
use super::outcome::{Line, Waits};

const CLASS: &str = "line";
/// How many tasks the first keeper has, how many of those want another lease, and how many the second has.
const TASKS: u32 = 24;
const OTHERWISE: u32 = 4;
const SECOND: u32 = 4;
/// How often each of them takes the lock, and how long it holds it.
pub(super) const ROUNDS: u32 = 10;
pub(super) const HOLD: Duration = Duration::from_millis(1);
/// So long nobody has to wait.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run(pair: &Pair, metrics: &Metrics) -> anyhow::Result<Line> {
    let name = super::unique_name();
    let lock = |keeper: &lockkeeper::Keeper| keeper.lock_class(CLASS)?.lock(&name);
    let (first, second) = (lock(&pair.first)?.wait(PATIENCE), lock(&pair.second)?.wait(PATIENCE));
    let before = handed_over(metrics);
    let waits = race(&first, &second).await?;
    let after = handed_over(metrics);
    let [in_process, by_swap, by_server] = [0, 1, 2].map(|way| after[way] - before[way]);
    let acquisitions = waits.len() as u64;
    Ok(Line {
        first_keeper: TASKS,
        of_these_with_another_lease: OTHERWISE,
        second_keeper: SECOND,
        acquisitions,
        in_process,
        by_swap,
        by_server,
        waited: Waits::of(waits),
    })
}

/// How long each acquisition took, over all tasks.
async fn race(first: &Lock, second: &Lock) -> anyhow::Result<Vec<Duration>> {
    let mut tasks = JoinSet::new();
    let start = Arc::new(tokio::sync::Barrier::new((TASKS + SECOND) as usize));
    for at in 0..TASKS + SECOND {
        let lock = match at {
            0..OTHERWISE => first.clone().lease(DEFAULT_LEASE * 2),
            OTHERWISE..TASKS => first.clone(),
            _ => second.clone(),
        };
        tasks.spawn(task(lock, start.clone()));
    }
    let mut waits = vec![];
    while let Some(waited) = tasks.join_next().await {
        waits.extend(waited??);
    }
    Ok(waits)
}

async fn task(lock: Lock, start: Arc<tokio::sync::Barrier>) -> Result<Vec<Duration>, Error> {
    let mut waits = vec![];
    start.wait().await;
    for _ in 0..ROUNDS {
        let asked = Instant::now();
        let guard = lock.acquire().await?.or_busy()?;
        waits.push(asked.elapsed());
        tokio::time::sleep(HOLD).await;
        guard.release().await?;
    }
    Ok(waits)
}

/// Inside the process, by a swap, by the server.
fn handed_over(metrics: &Metrics) -> [u64; 3] {
    let class = format!("class=\"{CLASS}\"");
    ["local", "swap", "server"]
        .map(|way| metrics.count("redis_lock_handovers_total", &[&class, &format!("way=\"{way}\"")]))
}
