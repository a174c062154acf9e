//! `lock-cycle`: acquire and release, a new key each time, by one or more tasks.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::arm::{Arm, Lock};
use crate::tally::Tally;

pub(crate) async fn run<A: Arm>(args: &Args, arm: &Arc<A>) -> Result<Value> {
    let tasks: u64 = args.number("tasks", 1)?;
    let begin = Instant::now() + args.seconds("warm", 0.3)?;
    let end = begin + args.seconds("secs", 1.5)?;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        running.spawn(cycles(arm.clone(), task, begin, end));
    }
    let mut sum = Tally::default();
    while let Some(done) = running.join_next().await {
        sum.add(done??);
    }
    Ok(sum.answer(begin.elapsed()))
}

async fn cycles<A: Arm>(arm: Arc<A>, task: u64, begin: Instant, end: Instant) -> Result<Tally> {
    let mut done = Tally::default();
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
            done.good += u64::from(released);
            done.errors += u64::from(!released);
        }
    }
}
