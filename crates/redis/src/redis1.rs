//! Building a store on a connection of the `redis` crate, major version 1, that you already have.
//!
//! The module is named after the client's major version, so that its next one is a minor step for you. Such a store
//! does not reconnect by itself and has one connection for everything: a slow command of yours delays renewals. Prefer
//! [`RedisStore::connect`](crate::RedisStore::connect) where you can.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Clock;
use redis::aio::ConnectionLike;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::clock::ServerClock;
use crate::config::MAX_RESPONSE_TIMEOUT;
use crate::error::{Failure, rounded};
use crate::probe::{ServerInfo, probe};
use crate::store::RedisStore;

/// A store on `connection`: a `MultiplexedConnection`, a `ConnectionManager`, or another cheap clone.
///
/// Locks use its database and its response time-out, and add an overall limit per command of `response_timeout`.
pub fn adopt<C>(connection: C, clock: Arc<dyn Clock>, response_timeout: Duration) -> RedisStore
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let make = move || -> Box<dyn ConnectionLike + Send> { Box::new(connection.clone()) };
    let clock = ServerClock::new(clock);
    RedisStore::adopted(
        Adopted { make: Box::new(make), clock, info: OnceCell::new() },
        response_timeout.min(MAX_RESPONSE_TIMEOUT),
    )
}

/// A lent connection.
pub(crate) struct Adopted {
    pub(crate) clock: ServerClock,
    make: Box<dyn Fn() -> Box<dyn ConnectionLike + Send> + Send + Sync>,
    pub(crate) info: OnceCell<Arc<ServerInfo>>,
}

impl Adopted {
    pub(crate) fn connection(&self) -> Box<dyn ConnectionLike + Send> {
        (self.make)()
    }

    /// Probed once.
    pub(crate) async fn info(&self, within: Duration) -> Result<Arc<ServerInfo>, Failure> {
        let probe = self
            .info
            .get_or_try_init(|| async { probe(|| self.connection(), &self.clock).await.map(Arc::new) });
        match timeout(within, probe).await {
            Ok(info) => info.cloned(),
            Err(_) => Err(Failure::unreachable(format!("no answer within {:?}", rounded(within)))),
        }
    }
}

impl fmt::Debug for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Adopted")
    }
}
