//! One server: a connection for each purpose, and what is known of its clock.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, Timestamp};
use redis::{Cmd, FromRedisValue, cmd};

use crate::attempt::unanswered;
use crate::clock::ServerClock;
use crate::connect::{Connector, Ears};
use crate::error::CallError;
use crate::lasting::Pools;
use crate::link::{Link, OwnLink};
use crate::redis1::Adopted;
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
        Self { links, pools: Some(Pools::new(&connector)), owner: Owner::Us(connector) }
    }

    /// On a connection that the user lent.
    pub(crate) fn adopted(connection: Adopted) -> Self {
        let adopted = Arc::new(connection);
        let links = std::array::from_fn(|_| Link::Adopted(adopted.clone()));
        Self { links, pools: None, owner: Owner::Lender(adopted) }
    }

    pub(crate) fn link(&self, lane: Lane) -> &Link {
        &self.links[lane as usize]
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

    /// Who wants to be told of which key. `None` for a lent connection.
    pub(crate) fn watched(&self) -> Option<&Arc<Watched>> {
        match &self.owner {
            Owner::Us(connector) => Some(&connector.watched),
            Owner::Lender(_) => None,
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
