//! One task that claims and completes, a new key each time, against two bare calls of the same scripts.

use std::time::Duration;

use anyhow::Result;

use crate::arm::Arm;
use crate::once::{BareRuns, Runs, once};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, cycles, on};
use crate::server::clear;
use crate::stage::Stage;
use crate::turn::Turn;
use crate::units::Unit;

const MOST: f64 = 1.15;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = measure_on(plan, Flavour::TwoWorkers)?;
    rows.append(&mut measure_on(plan, Flavour::OneThread)?);
    Ok(rows)
}

fn measure_on(plan: &Plan, flavour: Flavour) -> Result<Vec<Row>> {
    let stage = Stage::set(flavour)?;
    let once = once(&stage.keeper)?;
    let bare = BareRuns::like(&once, &stage)?;
    let pairs =
        plan.compare(|turn| run(&stage, turn, bare.clone()), |turn| run(&stage, turn, Runs(once.clone())))?;
    stage.strike()?;
    let work = format!("begin + complete, 1 task ({})", flavour.name());
    let cpu = format!("{work}: client CPU");
    Ok(vec![
        Row::compared(work, Unit::Nanoseconds, pairs.by(Turn::nanoseconds)?).mark(Mark::RatioAtMost(MOST)),
        Row::compared(cpu, Unit::Nanoseconds, pairs.by(Turn::cpu_nanoseconds)?),
    ])
}

fn run(stage: &Stage, turn: Duration, arm: impl Arm) -> Result<Turn> {
    clear(&stage.server)?;
    Turn::of(|| on(&stage.runtime, cycles(turn, arm)))
}
