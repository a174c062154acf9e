//! Steps that must last: a script, and the question who else has what it wrote, on one connection.
//!
//! `WAIT` and `WAITAOF` count what their own connection wrote, and hold it until they answer. So such steps have a few
//! connections of their own ([`Pool`]), each for one step at a time, and delay nobody else.

mod level;
mod pool;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::{Durability, Lasting, Leasing};
use lockkeeper_core::{Answer, Error, ErrorKind, Keys, Uptime};

use crate::attempt::{Attempt, Way, alone};
use crate::cluster::{Cluster, Errand, Manner, Step};
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
    let errand = Lasted { attempt: Attempt::new(lane, at, decision, ends), lane, level, ends };
    let (answer, held) = alone(node, ends, errand).await?;
    Ok(settled::<D>(answer, held, || ends.since(node.clock().uptime())).await)
}

/// The same on a cluster, for keys of this slot.
pub(crate) async fn apply_on_cluster<D: Port + Leasing>(
    cluster: &Arc<Cluster>,
    slot: u16,
    lane: Lane,
    at: &Keys,
    decision: D,
    level: Durability,
    ends: Uptime,
) -> Result<Lasting<D::Reply>, Error> {
    let errand = Lasted { attempt: Attempt::new(lane, at, decision, ends), lane, level, ends };
    let (answer, held) = cluster.route(lane, Some(slot), ends).run(errand).await?;
    Ok(settled::<D>(answer, held, || ends.since(cluster.uptime())).await)
}

/// Waits for the answer to the question behind the script, where that matters.
async fn settled<D: Port + Leasing>(
    answer: Answer<D::Reply>,
    mut held: Held,
    left: impl Fn() -> Duration,
) -> Lasting<D::Reply> {
    if !D::is_lease(&answer.reply) {
        held.let_be().await;
        return Lasting::met(answer);
    }
    let shortfall = held.acknowledged(left).await.shortfall(held.queued());
    Lasting { answer, shortfall }
}

/// A step that must last, on its way: each copy over a connection that is held for it.
struct Lasted<'a, D> {
    attempt: Attempt<'a, D>,
    lane: Lane,
    level: Durability,
    ends: Uptime,
}

impl<D: Port + Leasing> Errand for Lasted<'_, D> {
    type Done = (Answer<D::Reply>, Held);
    const NAME: &'static str = D::NAME;

    async fn try_on(&mut self, node: &Node, manner: Manner) -> Result<Step<Self::Done>, Error> {
        let mut held = hold(node, self.lane, self.level, D::NAME, self.ends).await?;
        Ok(match self.attempt.try_once(node, &mut Way::Held(&mut held), manner).await? {
            Step::Done(answer) => Step::Done((answer, held)),
            Step::Again => {
                // The next copy would come behind the question of this one.
                held.let_be().await;
                Step::Again
            }
            Step::Refused(words) => Step::Refused(words),
        })
    }

    fn conclude(&self, error: Error) -> Error {
        self.attempt.conclude(error)
    }
}

/// Finds out whether the server can meet `level`, by its commands, without taking anything.
pub(crate) async fn check(node: &Node, lane: Lane, level: Durability, ends: Uptime) -> Result<(), Error> {
    alone(node, ends, Checked { lane, level, ends }).await
}

/// The question whether a level can be met.
struct Checked {
    lane: Lane,
    level: Durability,
    ends: Uptime,
}

impl Errand for Checked {
    type Done = ();
    const NAME: &'static str = "durability";

    async fn try_on(&mut self, node: &Node, _: Manner) -> Result<Step<()>, Error> {
        let mut held = hold(node, self.lane, self.level, Self::NAME, self.ends).await?;
        let left = || self.ends.since(node.clock().uptime());
        let mut up = held.link().up(left()).await.map_err(|failure| failure.into_error(Self::NAME))?;
        held.check(&mut up, Self::NAME, left()).await.map(Step::Done)
    }

    fn conclude(&self, error: Error) -> Error {
        error
    }
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
