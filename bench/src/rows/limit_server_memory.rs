//! What a subject costs on the server, by algorithm, one check each.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Limit, Limiter};
use tokio::task::JoinSet;

use crate::limits::{algorithms, ensure_allowed, limiter, subject};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, on};
use crate::server::{ask, clear, info};
use crate::spread::Spread;
use crate::stage::Stage;
use crate::units::Unit;

const KEYS: u64 = 100_000;
const TASKS: u64 = 64;
/// No key goes while it is measured.
const WINDOW: Duration = Duration::from_secs(3600);
const COUNT: u64 = 10;
const MOST_BYTES: f64 = 120.0;

pub(crate) fn measure(_plan: &Plan) -> Result<Vec<Row>> {
    let stage = Stage::set(Flavour::TwoWorkers)?;
    let mut rows = Vec::new();
    // A token of the first takes whole microseconds to come back, one of the last does not, and the remainder is kept.
    let uneven = ("token bucket, 7 per hour", Limit::token_bucket(7).refill(7, WINDOW)?);
    for (name, limit) in algorithms(COUNT, WINDOW)?.into_iter().chain([uneven]) {
        let work = format!("server memory per subject: {name}");
        let row = Row::alone(work, Unit::Bytes, Spread::single(bytes(&stage, limit)?));
        rows.push(if rows.is_empty() { row.mark(Mark::AtMost(MOST_BYTES)) } else { row });
    }
    let note = format!(
        "{KEYS} subjects such as {}; key, value, expiry and both tables; allocator {}",
        subject(1),
        allocator(&stage)?
    );
    stage.strike()?;
    rows[0] = rows[0].clone().note(note);
    Ok(rows)
}

fn allocator(stage: &Stage) -> Result<String> {
    let reply = ask(&stage.server, &["INFO", "memory"])?;
    let text = reply.as_str().context("INFO: no text")?;
    let name = text.lines().find_map(|line| line.strip_prefix("mem_allocator:"));
    Ok(name.unwrap_or("unknown").trim().to_owned())
}

fn bytes(stage: &Stage, limit: Limit) -> Result<f64> {
    let limiter = limiter(&stage.keeper, limit)?;
    // The connection's buffers and the tables of a server that was full before are not the subjects'.
    on(&stage.runtime, fill(limiter.clone()))?;
    clear(&stage.server)?;
    let before = info(&stage.server, "memory", "used_memory")?;
    on(&stage.runtime, fill(limiter))?;
    let after = info(&stage.server, "memory", "used_memory")?;
    let keys = ask(&stage.server, &["DBSIZE"])?.as_int().context("DBSIZE: no number")?;
    ensure!(keys == i64::try_from(KEYS)?, "{keys} keys of {KEYS} subjects");
    Ok((after - before) / KEYS as f64)
}

async fn fill(limiter: Limiter) -> Result<()> {
    let mut tasks: JoinSet<Result<()>> = (0..TASKS).map(|task| fill_part(limiter.clone(), task)).collect();
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    Ok(())
}

async fn fill_part(limiter: Limiter, task: u64) -> Result<()> {
    for number in (task..KEYS).step_by(TASKS as usize) {
        ensure_allowed(&limiter.check(subject(number)).await?)?;
    }
    Ok(())
}
