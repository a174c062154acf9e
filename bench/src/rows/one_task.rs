//! One task that acquires and releases, a new key each time, against two bare calls.

use std::time::Duration;

use anyhow::Result;

use crate::arm::{Arm, BareNew, New};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, cycles, on, per_cycle};
use crate::server::clear;
use crate::stage::Stage;
use crate::units::Unit;

const MOST: f64 = 1.15;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    [Flavour::TwoWorkers, Flavour::OneThread].into_iter().map(|flavour| measure_on(plan, flavour)).collect()
}

fn measure_on(plan: &Plan, flavour: Flavour) -> Result<Row> {
    let stage = Stage::set(flavour)?;
    let compared = plan.compare(
        |turn| run(&stage, turn, BareNew(stage.bare.clone())),
        |turn| run(&stage, turn, New(stage.keeper.clone())),
    )?;
    stage.strike()?;
    let work = format!("acquire + release, 1 task ({})", flavour.name());
    Ok(Row::compared(work, Unit::Nanoseconds, compared).mark(Mark::RatioAtMost(MOST)))
}

fn run(stage: &Stage, turn: Duration, arm: impl Arm) -> Result<f64> {
    clear(&stage.server)?;
    on(&stage.runtime, cycles(turn, arm)).map(per_cycle)
}
