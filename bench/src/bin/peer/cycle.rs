//! `lock-cycle`: acquire and release, a new key each time, by one or more tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::args::Args;
use crate::arm::{Arm, Lock};

/// What one task did.
#[derive(Default)]
struct Done {
    /// Nanoseconds of each cycle that began after the warm-up.
    times: Vec<u64>,
    bad: u64,
    /// With the warm-up's.
    calls: u64,
}

pub(crate) async fn run<A: Arm>(args: &Args, arm: &Arc<A>) -> Result<Value> {
    let tasks: u64 = args.number("tasks", 1)?;
    let begin = Instant::now() + args.seconds("warm", 0.3)?;
    let end = begin + args.seconds("secs", 1.5)?;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        running.spawn(cycles(arm.clone(), task, begin, end));
    }
    let mut sum = Done::default();
    while let Some(done) = running.join_next().await {
        let mut done = done??;
        sum.times.append(&mut done.times);
        sum.bad += done.bad;
        sum.calls += done.calls;
    }
    Ok(answer(sum, begin.elapsed()))
}

async fn cycles<A: Arm>(arm: Arc<A>, task: u64, begin: Instant, end: Instant) -> Result<Done> {
    let mut done = Done::default();
    loop {
        let key = format!("lk:{task}:{}", done.calls);
        let started = Instant::now();
        if started >= end {
            return Ok(done);
        }
        let mut lock = arm.lock(&key)?;
        let held = lock.acquire().await?;
        let released = lock.release(held).await;
        done.calls += 1;
        if started >= begin {
            done.times.push(started.elapsed().as_nanos() as u64);
            done.bad += u64::from(!released);
        }
    }
}

fn answer(mut sum: Done, elapsed: Duration) -> Value {
    sum.times.sort_unstable();
    let (ops, secs) = (sum.times.len() as u64, elapsed.as_secs_f64());
    json!({
        "ops": ops, "good": ops - sum.bad, "errors": sum.bad, "calls": sum.calls,
        "secs": secs, "rate": ops as f64 / secs,
        "p50_us": quantile(&sum.times, 0.5), "p99_us": quantile(&sum.times, 0.99),
    })
}

/// Of sorted nanoseconds, in microseconds.
fn quantile(times: &[u64], part: f64) -> f64 {
    let rank = (times.len().saturating_sub(1) as f64 * part).round() as usize;
    times.get(rank).copied().unwrap_or(0) as f64 / 1e3
}
