//! 64 tasks, each on its own key, against 64 tasks that share one bare connection.
//!
//! The mark is about what Lockkeeper adds, so it is taken against a socket that is set as Lockkeeper sets its own.
//! What `TCP_NODELAY` itself costs in throughput (and gains in latency) is in the other row.

use std::time::Duration;

use anyhow::Result;

use crate::arm::{Arm, BareSame, Same};
use crate::bare::Socket;
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, on};
use crate::server::clear;
use crate::stage::{Stage, lock};
use crate::together::together;
use crate::turn::Turn;
use crate::units::Unit;

const TASKS: u64 = 64;
const LEAST: f64 = 0.85;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = measure_against(plan, Socket::NoDelay)?;
    rows.append(&mut measure_against(plan, Socket::Default)?);
    Ok(rows)
}

fn measure_against(plan: &Plan, socket: Socket) -> Result<Vec<Row>> {
    let flavour = Flavour::TwoWorkers;
    let stage = Stage::set_with(flavour, socket)?;
    let pairs = plan.compare(
        |turn| run(&stage, turn, |name| Ok(BareSame(stage.bare.clone(), name))),
        |turn| run(&stage, turn, |name| Ok(Same(lock(&stage.keeper, &name)?))),
    )?;
    stage.strike()?;
    let against = if socket == Socket::NoDelay { "" } else { "; bare without TCP_NODELAY" };
    let work = format!("acquire + release, {TASKS} tasks ({}{against})", flavour.name());
    let cpu = format!("{work}: client CPU");
    let row = Row::compared(work, Unit::PerSecond, pairs.by(Turn::rate)?);
    Ok(vec![
        if socket == Socket::NoDelay { row.mark(Mark::RatioAtLeast(LEAST)) } else { row },
        Row::compared(cpu, Unit::Nanoseconds, pairs.by(Turn::cpu_nanoseconds)?),
    ])
}

fn run<A: Arm>(stage: &Stage, turn: Duration, arm: impl Fn(String) -> Result<A>) -> Result<Turn> {
    clear(&stage.server)?;
    let arms: Result<Vec<A>> = (0..TASKS).map(|task| arm(format!("task:{task}"))).collect();
    let arms = arms?;
    Turn::of(|| on(&stage.runtime, together(turn, arms)))
}
