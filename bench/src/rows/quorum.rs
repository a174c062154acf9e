//! A majority of five servers against one, both through Lockkeeper; and the same with one of them silent.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::Keeper;
use lockkeeper_faults::{FaultProxy, RedisServer};

use crate::arm::New;
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, cycles, on};
use crate::server;
use crate::stage::Stage;
use crate::turn::Turn;
use crate::units::Unit;

const NODES: usize = 5;
const MOST_WITHOUT_FENCES: f64 = 2.5;
const MOST_WITH_FENCES: f64 = 5.0;
const MOST_WITH_ONE_SILENT: f64 = 1.2;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let stage = Stage::set(Flavour::TwoWorkers)?;
    let servers = (0..NODES).map(|_| server::start()).collect::<Result<Vec<_>>>()?;
    let addresses: Vec<SocketAddr> =
        servers.iter().map(|server| SocketAddr::from(([127, 0, 0, 1], server.port()))).collect();
    let mut rows = Vec::new();
    for (fences, most) in [("off", MOST_WITHOUT_FENCES), ("on", MOST_WITH_FENCES)] {
        let keeper = connect(&stage, &addresses, fences)?;
        let pairs =
            plan.compare(|turn| one(&stage, turn), |turn| majority(&stage, &servers, turn, &keeper))?;
        let work = format!("acquire + release, majority of 5, fences {fences}");
        let row = Row::compared(work, Unit::Nanoseconds, pairs.by(Turn::nanoseconds)?);
        rows.push(row.mark(Mark::RatioAtMost(most)).note("against Lockkeeper on one server"));
        strike(&stage, &keeper)?;
    }
    rows.push(one_silent(plan, &stage, &servers, addresses)?);
    stage.strike()?;
    Ok(rows)
}

/// Both arms have a majority of five; behind one proxy of the second nobody answers.
fn one_silent(
    plan: &Plan,
    stage: &Stage,
    servers: &[RedisServer],
    addresses: Vec<SocketAddr>,
) -> Result<Row> {
    let healthy = connect(stage, &addresses, "on")?;
    let proxy = FaultProxy::start(addresses[NODES - 1])?;
    let mut beyond = addresses;
    beyond[NODES - 1] = proxy.addr();
    let silent = connect(stage, &beyond, "on")?;
    proxy.black_hole();
    let pairs = plan.compare(
        |turn| majority(stage, servers, turn, &healthy),
        |turn| majority(stage, servers, turn, &silent),
    )?;
    strike(stage, &healthy)?;
    strike(stage, &silent)?;
    let work = "acquire + release, majority of 5, one black-holed";
    let row = Row::compared(work, Unit::Nanoseconds, pairs.by(Turn::nanoseconds)?);
    Ok(row.mark(Mark::RatioAtMost(MOST_WITH_ONE_SILENT)).note("against the same with all five"))
}

fn connect(stage: &Stage, addresses: &[SocketAddr], fences: &str) -> Result<Keeper> {
    let places: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    // One of them has a proxy in the place of a server.
    let url = format!("redis+quorum://{}?name=bench&fences={fences}", places.join(","));
    on(&stage.runtime, async move {
        let keeper = Keeper::connect(&url).await?;
        if let Some(store) = keeper.quorum_store() {
            store.init(true).await?;
        }
        Ok(keeper)
    })
}

fn strike(stage: &Stage, keeper: &Keeper) -> Result<()> {
    let closed = stage.runtime.block_on(keeper.close(Duration::from_secs(5)));
    ensure!(closed.still_held == 0, "something was left behind: {closed:?}");
    Ok(())
}

fn one(stage: &Stage, turn: Duration) -> Result<Turn> {
    server::clear(&stage.server)?;
    Turn::of(|| on(&stage.runtime, cycles(turn, New(stage.keeper.clone()))))
}

fn majority(stage: &Stage, servers: &[RedisServer], turn: Duration, keeper: &Keeper) -> Result<Turn> {
    // Not the markers: a server without one abstains.
    for server in servers {
        let keys = server::ask(server, &["KEYS", "lock:*"])?;
        for key in keys.as_array().unwrap_or_default().iter().filter_map(|key| key.as_str()) {
            server::ask(server, &["UNLINK", key])?;
        }
    }
    Turn::of(|| on(&stage.runtime, cycles(turn, New(keeper.clone()))))
}
