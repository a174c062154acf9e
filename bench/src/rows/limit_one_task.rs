//! One task that checks a few subjects in turn, against the same call by hand.

use std::time::Duration;

use anyhow::Result;

use crate::arm::Arm;
use crate::limits::{BareCall, Checks, Subjects, limiter, plenty};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, cycles, on};
use crate::server::clear;
use crate::stage::Stage;
use crate::turn::Turn;
use crate::units::Unit;

const SUBJECTS: Subjects = Subjects::InTurn(16);
const MOST: f64 = 1.15;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = measure_on(plan, Flavour::TwoWorkers)?;
    rows.append(&mut measure_on(plan, Flavour::OneThread)?);
    Ok(rows)
}

fn measure_on(plan: &Plan, flavour: Flavour) -> Result<Vec<Row>> {
    let stage = Stage::set(flavour)?;
    let limiter = limiter(&stage.keeper, plenty()?)?.exact();
    let bare = BareCall::like(&limiter, &stage)?;
    let pairs = plan.compare(
        |turn| run(&stage, turn, bare.on(SUBJECTS)),
        |turn| run(&stage, turn, Checks(limiter.clone(), SUBJECTS)),
    )?;
    stage.strike()?;
    let work = format!("check, token bucket, 1 task ({})", flavour.name());
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
