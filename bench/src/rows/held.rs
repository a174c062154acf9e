//! 10,000 locks held and renewed: what the client pays for it.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Keeper, LockGuard};
use tokio::task::JoinSet;

use crate::allocations;
use crate::cpu::{Load, Reading};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, on};
use crate::server::{busy_connections, calls_of};
use crate::spread::Spread;
use crate::stage::{Stage, acquire, release};
use crate::units::Unit;

const LOCKS: usize = 10_000;
const TASKS: usize = 50;
const LEASE: Duration = Duration::from_secs(30);
/// More than two renewal periods, each at most a third of the lease.
const HELD_FOR: Duration = Duration::from_secs(22);
const IDLE_FOR: Duration = Duration::from_secs(3);
/// A guard that was renewed when it was due has more than this left at any time.
const LEAST_LEFT: Duration = Duration::from_secs(15);
const MOST_CPU: f64 = 5.0;

/// What was found while the locks were held.
struct Found {
    load: Load,
    connections: usize,
    renewals: u64,
}

pub(crate) fn measure(_plan: &Plan) -> Result<Vec<Row>> {
    let stage = Stage::set(Flavour::TwoWorkers)?;
    warm_up(&stage)?;
    let idle = load_over(&stage, IDLE_FOR, "idle")?;
    allocations::start();
    let guards = acquire_all(&stage)?;
    let bytes = allocations::stop().grown_bytes as f64 / LOCKS as f64;
    let found = hold(&stage)?;
    check(&guards, &found)?;
    release_all(&stage, guards)?;
    stage.strike()?;
    Ok(rows(idle, &found, bytes))
}

/// One lock renewed once, so that both connections stand and their buffers are there.
fn warm_up(stage: &Stage) -> Result<()> {
    let keeper = stage.keeper.clone();
    on(&stage.runtime, async move {
        let guard = acquire(&keeper.lock("warm")?.lease(Duration::from_secs(1))).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        release(guard).await
    })
}

fn acquire_all(stage: &Stage) -> Result<Vec<LockGuard>> {
    let keeper = stage.keeper.clone();
    on(&stage.runtime, async move {
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            tasks.spawn(acquire_share(keeper.clone(), task));
        }
        let mut guards = Vec::with_capacity(LOCKS);
        while let Some(share) = tasks.join_next().await {
            guards.append(&mut share??);
        }
        Ok(guards)
    })
}

async fn acquire_share(keeper: Keeper, task: usize) -> Result<Vec<LockGuard>> {
    let mut guards = Vec::with_capacity(LOCKS / TASKS);
    for number in 0..LOCKS / TASKS {
        guards.push(acquire(&keeper.lock(format!("held:{task}:{number}"))?.lease(LEASE)).await?);
    }
    Ok(guards)
}

fn release_all(stage: &Stage, guards: Vec<LockGuard>) -> Result<()> {
    on(&stage.runtime, async move {
        for guard in guards {
            release(guard).await?;
        }
        Ok(())
    })
}

fn hold(stage: &Stage) -> Result<Found> {
    let before = calls_of(&stage.server, "evalsha")?;
    let load = load_over(stage, HELD_FOR, "holding and renewing 10,000 locks")?;
    let renewals = calls_of(&stage.server, "evalsha")? - before;
    // The commands' own connection has been idle for the whole time.
    let connections = busy_connections(&stage.server, HELD_FOR.as_secs() / 2)?;
    Ok(Found { load, connections, renewals })
}

fn load_over(stage: &Stage, time: Duration, what: &str) -> Result<Load> {
    let before = Reading::now(&stage.server)?;
    for second in 0..time.as_secs() {
        eprint!("\r  {what}: {second} of {} s ", time.as_secs());
        sleep(Duration::from_secs(1));
    }
    eprintln!("\r  {what}: {} s         ", time.as_secs());
    Ok(Reading::now(&stage.server)?.load_since(&before))
}

fn check(guards: &[LockGuard], found: &Found) -> Result<()> {
    ensure!(guards.len() == LOCKS, "{} locks are held, not {LOCKS}", guards.len());
    let stale = guards.iter().filter(|guard| !guard.is_valid() || guard.remaining() < LEAST_LEFT).count();
    ensure!(stale == 0, "{stale} of {LOCKS} guards were lost or not renewed in time");
    ensure!(found.renewals >= 2 * LOCKS as u64, "{} renewals are fewer than two per lock", found.renewals);
    Ok(())
}

fn rows(idle: Load, found: &Found, bytes: f64) -> Vec<Row> {
    let work = |what: &str| format!("10,000 locks held, lease 30 s: {what}");
    let row = |what: &str, unit, figure| Row::alone(work(what), unit, Spread::single(figure));
    let rate = found.renewals as f64 / HELD_FOR.as_secs_f64();
    let note =
        format!("idle {:.2} % taken off; {rate:.0} renewals/s; all guards valid after 22 s", idle.client);
    vec![
        row("client CPU of one core", Unit::PercentOfACore, (found.load.client - idle.client).max(0.0))
            .mark(Mark::Below(MOST_CPU))
            .note(note),
        row("server CPU of one core", Unit::PercentOfACore, (found.load.server - idle.server).max(0.0))
            .note(format!("idle {:.2} % taken off", idle.server)),
        row("connections that renew", Unit::Connections, found.connections as f64).mark(Mark::Exactly(1.0)),
        row("client memory per lock", Unit::Bytes, bytes).note("live bytes, guard and timeline included"),
    ]
}
