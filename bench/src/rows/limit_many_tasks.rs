//! 64 tasks that check any of 10,000 subjects, against 64 tasks that share one bare connection.

use std::time::Duration;

use anyhow::Result;

use crate::arm::Arm;
use crate::bare::Socket;
use crate::limits::{BareCall, Checks, Subjects, limiter, plenty};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, on};
use crate::server::clear;
use crate::stage::Stage;
use crate::together::together;
use crate::turn::Turn;
use crate::units::Unit;

const TASKS: u64 = 64;
const KEYS: u64 = 10_000;
const LEAST: f64 = 0.85;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let flavour = Flavour::TwoWorkers;
    let stage = Stage::set_with(flavour, Socket::NoDelay)?;
    let limiter = limiter(&stage.keeper, plenty()?)?.exact();
    let bare = BareCall::like(&limiter, &stage)?;
    let pairs = plan.compare(
        |turn| run(&stage, turn, |subjects| bare.on(subjects)),
        |turn| run(&stage, turn, |subjects| Checks(limiter.clone(), subjects)),
    )?;
    stage.strike()?;
    let work = format!("check, token bucket, {TASKS} tasks, {KEYS} keys ({})", flavour.name());
    let cpu = format!("{work}: client CPU");
    Ok(vec![
        Row::compared(work, Unit::PerSecond, pairs.by(Turn::rate)?).mark(Mark::RatioAtLeast(LEAST)),
        Row::compared(cpu, Unit::Nanoseconds, pairs.by(Turn::cpu_nanoseconds)?),
    ])
}

fn run<A: Arm>(stage: &Stage, turn: Duration, arm: impl Fn(Subjects) -> A) -> Result<Turn> {
    clear(&stage.server)?;
    let arms =
        (1..=TASKS).map(|task| arm(Subjects::Random { of: KEYS, state: task << 32 | 0x9e37 })).collect();
    Turn::of(|| on(&stage.runtime, together(turn, arms)))
}
