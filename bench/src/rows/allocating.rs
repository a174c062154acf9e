//! How often an acquisition with its release allocates, in the whole process: callers, client and keeper's thread.

use anyhow::Result;
use lockkeeper::Keeper;

use super::memory::Alone;
use crate::allocations;
use crate::arm::{Arm, BareNew, New, Same};
use crate::pair::{Compared, Plan};
use crate::row::Row;
use crate::runtime::{Flavour, on};
use crate::spread::Spread;
use crate::stage::{Stage, lock};
use crate::units::Unit;

const WARM_UP: u64 = 500;
const CYCLES: u64 = 5_000;

pub(crate) fn measure(_plan: &Plan) -> Result<Vec<Row>> {
    let work = |what: &str| format!("allocations per acquire + release: {what}");
    let alone = |what: &str, count: f64| Row::alone(work(what), Unit::Allocations, Spread::single(count));
    Ok(vec![
        Row::compared(work("Redis, new key each"), Unit::Allocations, on_redis()?),
        alone("memory store alone", store_alone()?),
        alone("memory store, guard and watchdog", in_memory()?),
    ])
}

fn on_redis() -> Result<Compared> {
    let stage = Stage::set(Flavour::OneThread)?;
    let bare = on(&stage.runtime, counted(BareNew(stage.bare.clone())))?;
    let ours = on(&stage.runtime, counted(New(stage.keeper.clone())))?;
    stage.strike()?;
    Compared::of(&[(bare, ours)])
}

fn in_memory() -> Result<f64> {
    let runtime = Flavour::OneThread.start()?;
    on(&runtime, async {
        let keeper = Keeper::connect("memory://").await?;
        let lock = lock(&keeper, "order:1")?;
        counted(Same(lock)).await
    })
}

fn store_alone() -> Result<f64> {
    let alone = Alone::new()?;
    (0..WARM_UP).try_for_each(|_| alone.cycle())?;
    allocations::start();
    let result = (0..CYCLES).try_for_each(|_| alone.cycle());
    let calls = allocations::stop().calls;
    result.map(|()| calls as f64 / CYCLES as f64)
}

pub(super) async fn counted(mut arm: impl Arm) -> Result<f64> {
    for number in 0..WARM_UP {
        arm.cycle(number).await?;
    }
    allocations::start();
    for number in WARM_UP..WARM_UP + CYCLES {
        arm.cycle(number).await?;
    }
    Ok(allocations::stop().calls as f64 / CYCLES as f64)
}
