//! How long a single acquire and a single release take on Redis: the middle and the slow end.

use std::time::Instant;

use anyhow::Result;
use lockkeeper::Keeper;

use crate::arm::new_name;
use crate::bare::{Bare, main_key, token};
use crate::pair::{Compared, Plan};
use crate::row::Row;
use crate::runtime::{Flavour, on};
use crate::server::clear;
use crate::spread::quantile;
use crate::stage::{Stage, acquire, lock, release};
use crate::units::Unit;

/// Cycles per turn of an arm; the turns of `--seconds` do not apply, a quantile needs a number of calls.
const CYCLES: u64 = 1_000;

/// The times of the calls of one turn, in nanoseconds.
#[derive(Default)]
struct Times {
    acquire: Vec<f64>,
    release: Vec<f64>,
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let stage = Stage::set(Flavour::TwoWorkers)?;
    let mut turns = Vec::new();
    // The first turn only warms up.
    for turn in 0..=plan.turns {
        let pair = (bare_turn(&stage)?, our_turn(&stage)?);
        if turn > 0 {
            turns.push(pair);
        }
    }
    stage.strike()?;
    rows(&mut turns)
}

fn bare_turn(stage: &Stage) -> Result<Times> {
    clear(&stage.server)?;
    on(&stage.runtime, bare_times(stage.bare.clone()))
}

fn our_turn(stage: &Stage) -> Result<Times> {
    clear(&stage.server)?;
    on(&stage.runtime, our_times(stage.keeper.clone()))
}

async fn bare_times(mut bare: Bare) -> Result<Times> {
    let mut times = Times::default();
    for number in 0..CYCLES {
        let started = Instant::now();
        let (key, token) = (main_key(&new_name(number)), token(number));
        bare.acquire(&key, &token).await?;
        let acquired = Instant::now();
        bare.release(&key, &token).await?;
        times.push(started, acquired);
    }
    Ok(times)
}

async fn our_times(keeper: Keeper) -> Result<Times> {
    let mut times = Times::default();
    for number in 0..CYCLES {
        let started = Instant::now();
        let guard = acquire(&lock(&keeper, &new_name(number))?).await?;
        let acquired = Instant::now();
        release(guard).await?;
        times.push(started, acquired);
    }
    Ok(times)
}

impl Times {
    fn push(&mut self, started: Instant, acquired: Instant) {
        self.acquire.push(acquired.duration_since(started).as_nanos() as f64);
        self.release.push(acquired.elapsed().as_nanos() as f64);
    }
}

fn rows(turns: &mut [(Times, Times)]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (call, pick) in [("acquire", acquires as fn(&mut Times) -> &mut Vec<f64>), ("release", releases)] {
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            let pairs: Vec<(f64, f64)> = turns
                .iter_mut()
                .map(|(bare, ours)| (quantile(pick(bare), part), quantile(pick(ours), part)))
                .collect();
            rows.push(Row::compared(format!("one {call}, {name}"), Unit::Nanoseconds, Compared::of(&pairs)?));
        }
    }
    Ok(rows)
}

fn acquires(times: &mut Times) -> &mut Vec<f64> {
    &mut times.acquire
}

fn releases(times: &mut Times) -> &mut Vec<f64> {
    &mut times.release
}
