//! One server: a connection for each purpose, and what is known of its clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, Timestamp};
use redis::{Cmd, FromRedisValue, cmd};

use crate::attempt::unanswered;
use crate::clock::ServerClock;
use crate::connect::{Connector, Ears};
use crate::error::CallError;
use crate::lasting::Pools;
use crate::link::{Link, OwnLink};
use crate::native::Way;
use crate::redis1::Adopted;
use crate::sentinel::Lookout;
use crate::url::Address;
use crate::wake::Watched;

/// What a connection is for. They are apart so that none delays another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Commands that a caller waits for.
    Command,
    /// Renewals, compensations and background releases.
    Renewal,
    /// Those who wait for a lock; told of changed keys where the server allows it. Only what reads a lock before it
    /// writes belongs here: see [`Watch`](lockkeeper_core::lock::Watch).
    Waiting,
}

pub(crate) const LANES: usize = 3;

/// A server, or the place of one: with Sentinel another server may take it.
#[derive(Debug)]
pub(crate) struct Node {
    links: [Link; LANES],
    /// For steps that must last. `None` for a lent connection.
    pools: Option<Pools>,
    owner: Owner,
    /// That locks are plain here has been said.
    plain_said: AtomicBool,
}

/// Who owns the connections, and with them the knowledge of the server's clock.
#[derive(Debug)]
enum Owner {
    Us(Arc<Connector>),
    Lender(Arc<Adopted>),
}

impl Node {
    /// Connects when it is first used.
    pub(crate) fn new(connector: Arc<Connector>) -> Self {
        let ears = [Ears::Closed, Ears::Closed, Ears::Open];
        let links = ears.map(|ears| Link::Own(OwnLink::new(connector.clone(), ears)));
        let pools = Some(Pools::new(&connector));
        Self { links, pools, owner: Owner::Us(connector), plain_said: AtomicBool::new(false) }
    }

    /// On a connection that the user lent.
    pub(crate) fn adopted(connection: Adopted) -> Self {
        let adopted = Arc::new(connection);
        let links = std::array::from_fn(|_| Link::Adopted(adopted.clone()));
        Self { links, pools: None, owner: Owner::Lender(adopted), plain_said: AtomicBool::new(false) }
    }

    pub(crate) fn link(&self, lane: Lane) -> &Link {
        &self.links[lane as usize]
    }

    /// Somebody has wanted one of its connections.
    pub(crate) fn is_in_use(&self) -> bool {
        self.links.iter().any(Link::is_in_use) || self.pools.as_ref().is_some_and(Pools::is_in_use)
    }

    pub(crate) fn pools(&self) -> Option<&Pools> {
        self.pools.as_ref()
    }

    pub(crate) fn clock(&self) -> &ServerClock {
        match &self.owner {
            Owner::Us(connector) => &connector.clock,
            Owner::Lender(adopted) => &adopted.clock,
        }
    }

    /// Where it is; `None` where somebody else says so.
    pub(crate) fn address(&self) -> Option<&Address> {
        match &self.owner {
            Owner::Us(connector) => connector.leads_to.address(),
            Owner::Lender(_) => None,
        }
    }

    /// Who looks out for the primary that has this place. `None`: it is one server's.
    pub(crate) fn lookout(&self) -> Option<&Lookout> {
        match &self.owner {
            Owner::Us(connector) => connector.lookout(),
            Owner::Lender(_) => None,
        }
    }

    /// Changes when another server has taken this place.
    pub(crate) fn term(&self) -> u64 {
        self.lookout().map_or(0, |lookout| lookout.term().max(1))
    }

    /// Who wants to be told of which key. `None` for a lent connection.
    pub(crate) fn watched(&self) -> Option<&Arc<Watched>> {
        match &self.owner {
            Owner::Us(connector) => Some(&connector.watched),
            Owner::Lender(_) => None,
        }
    }

    /// Where scripts are forbidden, plain locks will do.
    pub(crate) fn allows_plain(&self) -> bool {
        matches!(&self.owner, Owner::Us(connector) if connector.config.without_scripts)
    }

    /// Says once that locks are plain here.
    pub(crate) fn say_plain(&self, way: Way) {
        if !self.plain_said.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                ?way,
                "scripts are forbidden here: locks have no fence, and one that a stopped server takes late stays for its lease"
            );
        }
    }

    /// Asks for the server's time. One `TIME`.
    pub(crate) async fn heartbeat(&self, lane: Lane, within: Duration) -> Result<Timestamp, Error> {
        let sent = self.clock().uptime();
        let (seconds, micros): (u64, u64) = self.ask(lane, "heartbeat", &cmd("TIME"), within).await?;
        let at = Timestamp::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros));
        self.clock().observe(sent, at);
        Ok(at)
    }

    /// Runs one plain command that takes nothing.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        lane: Lane,
        operation: &'static str,
        command: &Cmd,
        within: Duration,
    ) -> Result<T, Error> {
        let started = self.clock().uptime();
        let link = self.link(lane);
        let mut up = link.up(within).await.map_err(|failure| failure.into_error(operation))?;
        let left = within.saturating_sub(self.clock().uptime().since(started));
        match link.send(&mut up, command, left).await {
            Ok(value) => redis::from_redis_value(value)
                .map_err(|error| Error::new(ErrorKind::Protocol, operation, error.to_string())),
            Err(CallError::Answered(words)) => {
                Err(Error::new(ErrorKind::Refused(words.refusal()), operation, words.text()))
            }
            Err(error) => Err(unanswered(operation, &error, None)),
        }
    }
}
