//! A hot key whose tokens are leased: what one decision costs, and that the total stays within the limit.
//!
//! Decisions per second *of processor time*: on a machine that does other work as well, a second of the clock is less than
//! a second of a core.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lockkeeper::{Keeper, LeasedLimiter, Limit, Verdict};
use tokio::task::JoinSet;

use crate::limits::{ensure_allowed, limiter, subject};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, on};
use crate::server;
use crate::spread::Spread;
use crate::stage::Stage;
use crate::turn::Turn;
use crate::units::Unit;

/// Per second, and never reached.
const PLENTY: u64 = 1_000_000_000;
const LEAST: f64 = 5_000_000.0;
/// So many decisions between two looks at the clock.
const BATCH: u64 = 1_000;
const TOTAL: u64 = 1_000_000;
const HOUR: Duration = Duration::from_secs(3600);
/// Two keepers have spent the total long before.
const PATIENCE: Duration = Duration::from_secs(60);
/// Once a keeper was refused it asks again for so long: the other one may have returned something.
const AFTERWARDS: Duration = Duration::from_millis(1500);
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = measure_on(plan, Flavour::OneThread, 1)?;
    rows.append(&mut measure_on(plan, Flavour::TwoWorkers, 2)?);
    rows.push(total()?);
    Ok(rows)
}

fn measure_on(plan: &Plan, flavour: Flavour, tasks: usize) -> Result<Vec<Row>> {
    let stage = Stage::set(flavour)?;
    let limit = Limit::token_bucket(PLENTY).refill(PLENTY, Duration::from_secs(1))?;
    let leased = limiter(&stage.keeper, limit)?.leased()?;
    let run = |turn: Duration| {
        let running = (0..tasks).map(|_| decisions(leased.clone(), turn)).collect::<Vec<_>>();
        Turn::of(|| on(&stage.runtime, sum(running)))
    };
    run(plan.turn)?;
    let calls = server::calls_of(&stage.server, "evalsha")?;
    let turns = (0..plan.turns).map(|_| run(plan.turn)).collect::<Result<Vec<Turn>>>()?;
    let calls = server::calls_of(&stage.server, "evalsha")? - calls;
    stage.strike()?;
    let done: u64 = turns.iter().map(|turn| turn.cycles).sum();
    let spread = |figure: fn(&Turn) -> f64| {
        Spread::of(turns.iter().map(figure).collect()).unwrap_or(Spread::single(0.0))
    };
    let tasks_are = if tasks == 1 { "task" } else { "tasks" };
    let work = format!("check, leased, one key, {tasks} {tasks_are} ({})", flavour.name());
    let note = format!("per second of a core; {} decisions per call of the script", done / calls.max(1));
    Ok(vec![
        Row::alone(&work, Unit::PerSecond, spread(|turn| 1e9 / turn.cpu_nanoseconds()))
            .mark(Mark::AtLeast(LEAST))
            .note(note),
        Row::alone(format!("{work}: by the clock, all tasks"), Unit::PerSecond, spread(Turn::rate)),
    ])
}

async fn sum(running: Vec<impl Future<Output = Result<u64>> + Send + 'static>) -> Result<u64> {
    let mut tasks: JoinSet<Result<u64>> = running.into_iter().collect();
    let mut done = 0;
    while let Some(result) = tasks.join_next().await {
        done += result??;
    }
    Ok(done)
}

async fn decisions(leased: LeasedLimiter, turn: Duration) -> Result<u64> {
    let (subject, started) = (subject(1), Instant::now());
    let mut done = 0;
    while started.elapsed() < turn {
        for _ in 0..BATCH {
            ensure_allowed(&leased.check(&subject).await?)?;
        }
        done += BATCH;
    }
    Ok(done)
}

/// Two keepers spend one limit.
fn total() -> Result<Row> {
    let stage = Stage::set(Flavour::TwoWorkers)?;
    let url = stage.server.url();
    let second = on(&stage.runtime, async move { Ok(Keeper::connect(&url).await?) })?;
    let spenders = [&stage.keeper, &second].map(|keeper| -> Result<_> {
        let limit = Limit::fixed_window_from_first(TOTAL, HOUR)?;
        Ok(spend(limiter(keeper, limit)?.leased()?))
    });
    let started = Instant::now();
    let admitted = on(&stage.runtime, sum(spenders.into_iter().collect::<Result<_>>()?))?;
    let took = started.elapsed();
    stage.runtime.block_on(second.close(CLOSE_WITHIN));
    stage.strike()?;
    ensure!(admitted <= TOTAL, "{admitted} were admitted of {TOTAL}");
    let share = admitted as f64 / TOTAL as f64 * 100.0;
    let work = format!("check, leased, two keepers, {TOTAL} per hour: admitted");
    let note = format!("{share:.2} % of the limit, in {took:.1?}");
    Ok(Row::alone(work, Unit::Tokens, Spread::single(admitted as f64))
        .mark(Mark::AtMost(TOTAL as f64))
        .note(note))
}

/// Until nothing has come for a while.
async fn spend(leased: LeasedLimiter) -> Result<u64> {
    let (subject, started) = (subject(1), Instant::now());
    let (mut admitted, mut latest) = (0, Instant::now());
    loop {
        match leased.check(&subject).await? {
            Verdict::Allowed { granted, .. } => {
                admitted += granted;
                if admitted % BATCH == 0 {
                    latest = Instant::now();
                }
            }
            Verdict::Denied { .. } if latest.elapsed() < AFTERWARDS => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Verdict::Denied { .. } => return Ok(admitted),
            other => anyhow::bail!("Lockkeeper's arm: {other:?}"),
        }
        ensure!(started.elapsed() < PATIENCE, "the limit was not spent within {PATIENCE:?}");
    }
}
