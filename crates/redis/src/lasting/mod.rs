//! Steps that must last: a script, and the question who else has what it wrote, on one connection.
//!
//! `WAIT` and `WAITAOF` count what their own connection wrote, and hold it until they answer. So such steps have a few
//! connections of their own ([`Pool`]), each for one step at a time, and delay nobody else.

mod level;
mod pool;

use std::time::Duration;

use lockkeeper_core::lock::{Durability, Lasting, Leasing};
use lockkeeper_core::{Error, ErrorKind, Keys, Uptime};

use crate::attempt::{Attempt, Way};
use crate::node::{Lane, Node};
use crate::port::Port;

pub(crate) use self::pool::{Held, Pools};

/// Applies `decision`, and waits until `level` is met or `ends` is near.
pub(crate) async fn apply<D: Port + Leasing>(
    node: &Node,
    lane: Lane,
    at: &Keys,
    decision: D,
    level: Durability,
    ends: Uptime,
) -> Result<Lasting<D::Reply>, Error> {
    let mut held = hold(node, lane, level, D::NAME, ends).await.map_err(|error| error.with_key(at))?;
    let answer = Attempt::new(node, Way::Held(&mut held), at, decision, ends).run().await?;
    if !D::is_lease(&answer.reply) {
        held.let_be().await;
        return Ok(Lasting::met(answer));
    }
    let left = || ends.since(node.clock().uptime());
    let shortfall = held.acknowledged(left).await.shortfall();
    Ok(Lasting { answer, shortfall })
}

/// Finds out whether the server can meet `level`, by its commands, without taking anything.
pub(crate) async fn check(node: &Node, lane: Lane, level: Durability, ends: Uptime) -> Result<(), Error> {
    const OPERATION: &str = "durability";
    let mut held = hold(node, lane, level, OPERATION, ends).await?;
    let left = || ends.since(node.clock().uptime());
    let mut up = held.link().up(left()).await.map_err(|failure| failure.into_error(OPERATION))?;
    held.check(&mut up, OPERATION, left()).await
}

async fn hold(
    node: &Node,
    lane: Lane,
    level: Durability,
    operation: &'static str,
    ends: Uptime,
) -> Result<Held, Error> {
    let Some(pools) = node.pools() else {
        let detail = format!("{level}: a lent connection is not held up to wait for replicas or disks");
        return Err(Error::new(ErrorKind::Unsupported, operation, detail));
    };
    let left: Duration = ends.since(node.clock().uptime());
    let held = pools.of(lane).hold(level, left).await;
    held.map_err(|failure| failure.into_error(operation))
}
