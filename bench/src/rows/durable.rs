//! What a level of durability costs: acquire and release at the level, beside the same at *accepted*, on one server.

use std::time::Duration;

use anyhow::{Context as _, Result};
use lockkeeper::{Durability, Keeper};
use lockkeeper_faults::{RedisServer, Replicated, ServerBuilder, ServerKind, find_binary};

use crate::arm::{Arm, new_name};
use crate::pair::{Pairs, Plan};
use crate::row::Row;
use crate::runtime::{Flavour, cycles, on};
use crate::server::clear;
use crate::stage;
use crate::turn::Turn;
use crate::units::Unit;

/// A lock on a new key each time, at a level.
struct At(Keeper, Durability);

impl Arm for At {
    async fn cycle(&mut self, number: u64) -> Result<()> {
        stage::cycle(&stage::lock(&self.0, &new_name(number))?.durability(self.1)).await
    }
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let group = Replicated::start(&RedisServer::builder(), 1)?;
    for level in [Durability::replicas(1)?, Durability::AllReplicas] {
        let pairs = compare(plan, group.primary(), level)?;
        rows.push(row(level, "1 replica, through a proxy", &pairs)?);
    }
    if find_binary(ServerKind::Valkey).is_none() {
        let why = "no Valkey: cargo xtask test fetches one";
        rows.push(Row::missing(work(Durability::fsync()), Unit::Nanoseconds, why));
        return Ok(rows);
    }
    for policy in ["always", "everysec"] {
        let server = flushing(policy).start()?;
        let pairs = compare(plan, &server, Durability::fsync())?;
        rows.push(row(Durability::fsync(), &format!("Valkey, appendfsync {policy}"), &pairs)?);
    }
    Ok(rows)
}

fn flushing(policy: &str) -> ServerBuilder {
    RedisServer::builder().kind(ServerKind::Valkey).persistent().config("appendfsync", policy)
}

fn compare(plan: &Plan, server: &RedisServer, level: Durability) -> Result<Pairs> {
    let runtime = Flavour::TwoWorkers.start()?;
    let url = server.url();
    let keeper = on(&runtime, async move { Ok(Keeper::connect(&url).await?) })?;
    let turn = |turn: Duration, level| {
        clear(server)?;
        Turn::of(|| on(&runtime, cycles(turn, At(keeper.clone(), level))))
    };
    let pairs = plan.compare(|length| turn(length, Durability::Accepted), |length| turn(length, level))?;
    runtime.block_on(keeper.close(Duration::from_secs(5)));
    Ok(pairs)
}

fn row(level: Durability, on: &str, pairs: &Pairs) -> Result<Row> {
    let compared = pairs.by(Turn::nanoseconds).context("no turn")?;
    let note = format!("{on}; beside it the same at `accepted`; a release waits for nobody");
    Ok(Row::compared(work(level), Unit::Nanoseconds, compared).note(note))
}

fn work(level: Durability) -> String {
    format!("acquire + release at {level}, 1 task")
}
