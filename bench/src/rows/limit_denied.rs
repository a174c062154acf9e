//! Refusals that are remembered; and what the script costs on the server, by algorithm and size of batch.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Limit, Limiter, Source};
use tokio::task::JoinSet;

use crate::limits::{algorithms, ensure_allowed, limiter, subject};
use crate::pair::Plan;
use crate::row::Row;
use crate::runtime::{Flavour, on};
use crate::server::{ask, clear};
use crate::spread::Spread;
use crate::stage::Stage;
use crate::turn::Turn;
use crate::units::Unit;

/// So many refusals between two looks at the clock.
const BATCH: u64 = 1_000;
const HOUR: Duration = Duration::from_secs(3600);
/// As many as a log may have.
const COUNT: u64 = 10_000;
/// What goes together in one call at most.
const TOGETHER: usize = 512;
const ROUNDS: u64 = 200;
/// Rounds per subject, so that no limit is reached.
const PER_SUBJECT: u64 = 10;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = vec![remembered(plan)?];
    let stage = Stage::set(Flavour::OneThread)?;
    for (name, limit) in algorithms(COUNT, HOUR)? {
        let limiter = limiter(&stage.keeper, limit)?.exact();
        let one = script_time(&stage, rounds(limiter.clone(), 1))?;
        let both = script_time(&stage, rounds(limiter, TOGETHER + 1))?;
        let row = |what: String, ns: f64| {
            Row::alone(format!("the check script: {name}, {what}"), Unit::Nanoseconds, Spread::single(ns))
        };
        rows.push(row("1 check".to_owned(), one.per_call()));
        // Who comes first goes alone, and the others together.
        ensure!(both.calls == 2 * ROUNDS, "{} calls for {ROUNDS} batches", both.calls);
        let batch = both.nanoseconds / ROUNDS as f64 - one.per_call();
        rows.push(row(format!("{TOGETHER} checks"), batch));
    }
    stage.strike()?;
    rows[1] = rows[1].clone().note("server time per call, as INFO commandstats has it; a granted check");
    Ok(rows)
}

fn remembered(plan: &Plan) -> Result<Row> {
    let stage = Stage::set(Flavour::OneThread)?;
    let limiter = limiter(&stage.keeper, Limit::fixed_window_from_first(1, HOUR)?)?;
    let rate = plan.repeat(|turn| {
        let refusals = refusals(limiter.clone(), turn);
        Turn::of(|| on(&stage.runtime, refusals)).map(|turn| 1e9 / turn.cpu_nanoseconds())
    })?;
    stage.strike()?;
    let work = format!("check, denied and remembered, 1 task ({})", Flavour::OneThread.name());
    Ok(Row::alone(work, Unit::PerSecond, rate).note("per second of a core"))
}

async fn refusals(limiter: Limiter, turn: Duration) -> Result<u64> {
    let (subject, started) = (subject(1), Instant::now());
    let (mut done, mut remembered) = (0, 0);
    while started.elapsed() < turn {
        for _ in 0..BATCH {
            let verdict = limiter.check(&subject).await?;
            remembered += u64::from(verdict.detail().source() == Source::Remembered);
        }
        done += BATCH;
    }
    // One grant, and a refusal of the store per second.
    ensure!(remembered + BATCH >= done, "only {remembered} of {done} were remembered");
    Ok(done)
}

/// What `EVALSHA` took on the server.
struct ScriptTime {
    calls: u64,
    nanoseconds: f64,
}

impl ScriptTime {
    fn per_call(&self) -> f64 {
        self.nanoseconds / self.calls as f64
    }
}

fn script_time(stage: &Stage, work: impl Future<Output = Result<()>> + Send + 'static) -> Result<ScriptTime> {
    clear(&stage.server)?;
    ask(&stage.server, &["CONFIG", "RESETSTAT"])?;
    on(&stage.runtime, work)?;
    let reply = ask(&stage.server, &["INFO", "commandstats"])?;
    let text = reply.as_str().context("INFO: no text")?;
    let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).context("no EVALSHA")?;
    let field = |name: &str| -> Result<u64> {
        let value = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        Ok(value.context("a field of INFO commandstats")?.parse()?)
    };
    Ok(ScriptTime { calls: field("calls")?, nanoseconds: field("usec")? as f64 * 1e3 })
}

/// Each round has so many checks at once of one subject.
async fn rounds(limiter: Limiter, at_once: usize) -> Result<()> {
    for round in 0..ROUNDS {
        let subject = subject(round / PER_SUBJECT);
        let one =
            |limiter: Limiter, subject: String| async move { ensure_allowed(&limiter.check(subject).await?) };
        let mut tasks: JoinSet<Result<()>> =
            (0..at_once).map(|_| one(limiter.clone(), subject.clone())).collect();
        while let Some(result) = tasks.join_next().await {
            result??;
        }
    }
    Ok(())
}
