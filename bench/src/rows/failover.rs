//! A primary is killed: how long after the next one takes writes does an acquisition succeed?

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::Keeper;
use lockkeeper_faults::{RedisServer, SentinelGroup};

use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, on};
use crate::spread::Spread;
use crate::stage::lock;
use crate::units::Unit;

const GROUPS: u32 = 3;
const MOST_NS: f64 = 1_000_000_000.0;
/// A failover never takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(1);

pub(crate) fn measure(_plan: &Plan) -> Result<Vec<Row>> {
    let (mut lags, mut without) = (Vec::new(), Vec::new());
    for _ in 0..GROUPS {
        let (lag, away) = fail_over()?;
        lags.push(lag.as_secs_f64() * 1e9);
        without.push(away.as_secs_f64());
    }
    let lag = Spread::of(lags).context("no group was measured")?;
    let away = Spread::of(without).context("no group was measured")?;
    let note = format!(
        "{GROUPS} primaries were killed; 3 Sentinels that call a server down after 1 s; the next one took writes {:.1} s later",
        away.median
    );
    let work = "Sentinel: from the new primary takes writes to an acquisition succeeded";
    Ok(vec![Row::alone(work, Unit::Nanoseconds, lag).mark(Mark::AtMost(MOST_NS)).note(note)])
}

/// The time from then to an acquisition, and from the kill to then.
fn fail_over() -> Result<(Duration, Duration)> {
    let group = SentinelGroup::builder().start().context("a group with Sentinels")?;
    let runtime = Flavour::OneThread.start()?;
    let url = group.url();
    let keeper = on(&runtime, async move { Ok(Keeper::connect(&url).await?) })?;
    group.servers()[0].kill()?;
    let killed = Instant::now();
    let (taken, writable) = thread::scope(|scope| {
        let watching = scope.spawn(|| writable(&group.servers()[1..], killed));
        let taken = on(&runtime, taken(keeper, killed));
        (taken, watching.join())
    });
    let writable = writable.ok().context("who watched the servers panicked")??;
    Ok((taken?.saturating_duration_since(writable), writable - killed))
}

/// When an acquisition succeeded; each try waits for a primary within its own limit.
async fn taken(keeper: Keeper, killed: Instant) -> Result<Instant> {
    let lock = lock(&keeper, "order:1")?;
    while lock.try_acquire().await.ok().and_then(lockkeeper::Acquired::held).is_none() {
        ensure!(killed.elapsed() < PATIENCE, "no acquisition succeeded");
        tokio::time::sleep(POLL).await;
    }
    Ok(Instant::now())
}

/// When one of them took a write.
fn writable(servers: &[RedisServer], killed: Instant) -> Result<Instant> {
    while !servers
        .iter()
        .any(|server| server.command(&["SET", "probe", "1"]).is_ok_and(|reply| !reply.is_error()))
    {
        ensure!(killed.elapsed() < PATIENCE, "no server took writes");
        thread::sleep(POLL);
    }
    Ok(Instant::now())
}
