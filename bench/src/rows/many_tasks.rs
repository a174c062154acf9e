//! 64 tasks, each on its own key, against 64 tasks that share one bare connection.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::arm::{Arm, BareSame, Same};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, cycles, on};
use crate::server::clear;
use crate::stage::{Stage, lock};
use crate::units::Unit;

const TASKS: u64 = 64;
const LEAST: f64 = 0.85;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let flavour = Flavour::TwoWorkers;
    let stage = Stage::set(flavour)?;
    let compared = plan.compare(
        |turn| run(&stage, turn, |name| Ok(BareSame(stage.bare.clone(), name))),
        |turn| run(&stage, turn, |name| Ok(Same(lock(&stage.keeper, &name)?))),
    )?;
    stage.strike()?;
    let work = format!("acquire + release, {TASKS} tasks ({})", flavour.name());
    Ok(vec![Row::compared(work, Unit::PerSecond, compared).mark(Mark::RatioAtLeast(LEAST))])
}

fn run<A: Arm>(stage: &Stage, turn: Duration, arm: impl Fn(String) -> Result<A>) -> Result<f64> {
    clear(&stage.server)?;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn_on(cycles(turn, arm(format!("task:{task}"))?), stage.runtime.handle());
    }
    per_second(stage, tasks)
}

fn per_second(stage: &Stage, mut tasks: JoinSet<Result<(u64, Duration)>>) -> Result<f64> {
    let started = Instant::now();
    let done = on(&stage.runtime, async move {
        let mut done = 0;
        while let Some(result) = tasks.join_next().await {
            done += result??.0;
        }
        Ok(done)
    })?;
    Ok(done as f64 / started.elapsed().as_secs_f64())
}
