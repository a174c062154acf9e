//! 512 tasks on one key, each check exact, against the most calls that the server answers.

use std::time::Duration;

use anyhow::Result;
use lockkeeper::Limiter;

use super::ceiling::{WHY_NOT, ceiling};
use crate::limits::{Checks, Subjects, limiter, plenty, words};
use crate::pair::{Compared, Plan};
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, on};
use crate::server::{calls_of, clear};
use crate::spread::Spread;
use crate::stage::Stage;
use crate::together::together;
use crate::turn::Turn;
use crate::units::Unit;

const TASKS: u64 = 512;
const CEILING_CALLS: u64 = 20_000;
const LEAST_TIMES: f64 = 10.0;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let flavour = Flavour::TwoWorkers;
    let stage = Stage::set(flavour)?;
    let limiter = limiter(&stage.keeper, plenty()?)?.exact();
    let words = words(&limiter, &stage)?;
    let work = format!("check, token bucket, {TASKS} tasks, one key, exact ({})", flavour.name());
    let (mut pairs, mut cpu) = (Vec::new(), Vec::new());
    let (mut checks, mut calls) = (0, 0);
    // The first turn only warms up.
    for turn in 0..=plan.turns {
        let Some(most) = ceiling(&stage.server, words.all(), CEILING_CALLS)? else {
            return Ok(vec![
                Row::missing(work, Unit::PerSecond, WHY_NOT).mark(Mark::RatioAtLeast(LEAST_TIMES)),
            ]);
        };
        let before = calls_of(&stage.server, "evalsha")?;
        let ours = run(&stage, &limiter, plan.turn)?;
        if turn > 0 {
            pairs.push((most, ours.rate()));
            cpu.push(ours.cpu_nanoseconds());
            checks += ours.cycles;
            calls += calls_of(&stage.server, "evalsha")? - before;
        }
    }
    stage.strike()?;
    let batch = checks as f64 / calls as f64;
    let note = format!(
        "bare: the same call by redis-benchmark -c 50 -P 1; {batch:.0} checks per call of the script"
    );
    let cpu = Spread::of(cpu).unwrap_or(Spread::single(0.0));
    Ok(vec![
        Row::compared(work.clone(), Unit::PerSecond, Compared::of(&pairs)?)
            .mark(Mark::RatioAtLeast(LEAST_TIMES))
            .note(note),
        Row::alone(format!("{work}: client CPU"), Unit::Nanoseconds, cpu),
    ])
}

fn run(stage: &Stage, limiter: &Limiter, turn: Duration) -> Result<Turn> {
    clear(&stage.server)?;
    let arms = (0..TASKS).map(|_| Checks(limiter.clone(), Subjects::InTurn(1))).collect();
    Turn::of(|| on(&stage.runtime, together(turn, arms)))
}
