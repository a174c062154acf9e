//! What a monitoring has to show: a refused try, renewals, a lost lock, a late release, and a store that is away.

use std::time::{Duration, Instant};

use lockkeeper::{Acquired, Degradable, Keeper, LockClass, Released};

use super::episodes::Pair;
use super::metrics::Metrics;
use super::outcome::Trouble;
use super::stall::SHORT_LEASE;

const CLASS: &str = "trouble";
/// Nobody listens here.
const NOWHERE: &str = "redis://127.0.0.1:1";
/// How long the store that is away is asked.
const SHORT_LIMIT: Duration = Duration::from_millis(250);
/// How long a lock with the short lease is held.
pub(super) const HELD: Duration = Duration::from_millis(400);

pub(super) async fn run(pair: &Pair, metrics: &Metrics) -> anyhow::Result<Trouble> {
    let (first, second) = (pair.first.lock_class(CLASS)?, pair.second.lock_class(CLASS)?);
    let (renewals, refused) = held_for_long(&first, &second, metrics).await?;
    let (lost, late_release) = outlived(&first).await?;
    let (degraded, degraded_after) = away().await?;
    Ok(Trouble { refused, renewals, lost, late_release, degraded, degraded_after })
}

/// Holds a lock for longer than its lease; meanwhile the other keeper tries once. How often it was renewed, and the
/// answer to the other.
async fn held_for_long(
    first: &LockClass,
    second: &LockClass,
    metrics: &Metrics,
) -> anyhow::Result<(u64, String)> {
    let renewed = || {
        let labels = [format!("class=\"{CLASS}\""), "result=\"success\"".to_owned()];
        metrics.count("redis_lock_watchdog_extend_total", &[&labels[0], &labels[1]])
    };
    let (name, before) = (super::unique_name(), renewed());
    let guard = first.lock(&name)?.lease(SHORT_LEASE).acquire().await?.or_busy()?;
    let refused = match second.lock(&name)?.try_acquire().await? {
        Acquired::Busy(busy) => format!("held by {}", busy.holder),
        Acquired::Held(_) => anyhow::bail!("a lock was given to two at once"),
    };
    tokio::time::sleep(HELD).await;
    guard.release().await?;
    Ok((renewed() - before, refused))
}

/// Outlives a lease that is not renewed, and releases all the same. What the guard said, and what the release found.
async fn outlived(class: &LockClass) -> anyhow::Result<(String, String)> {
    let lock = class.lock(super::unique_name())?.lease(SHORT_LEASE).no_renewal();
    let guard = lock.acquire().await?.or_busy()?;
    let lost = guard.lost().await.to_string();
    // The guard gives up a little before the server does.
    tokio::time::sleep(SHORT_LEASE).await;
    let found = match guard.release().await? {
        Released::Expired => "the lease had ended, nobody holds it".to_owned(),
        Released::HeldByAnother(holder) => format!("the lease had ended, held by {holder}"),
        other => anyhow::bail!("a lease that had ended was released: {other:?}"),
    };
    Ok((lost, found))
}

/// Takes a lock that may be degraded, on a server that is not there. Why it was, and after how long.
async fn away() -> anyhow::Result<(String, Duration)> {
    let keeper = Keeper::builder().url(NOWHERE)?.response_timeout(SHORT_LIMIT).lazy().connect().await?;
    let lock = keeper.lock_class(CLASS)?.lock(super::unique_name())?;
    let asked = Instant::now();
    let taken = lock.or_process_local().acquire().await?;
    let took = asked.elapsed();
    let Degradable::Local(guard) = &taken else { anyhow::bail!("somebody answers at {NOWHERE}") };
    let cause = guard.cause().kind().to_string();
    drop(taken);
    keeper.close(Duration::ZERO).await;
    Ok((cause, took))
}
