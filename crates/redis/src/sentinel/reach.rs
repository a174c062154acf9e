//! Connecting to the primary: whoever it is, and only if it says so itself.

use lockkeeper_core::{ErrorKind, Refusal};
use redis::aio::MultiplexedConnection;
use redis::{Value, cmd};
use tokio::time::timeout;

use super::{Lookout, Primary};
use crate::connect::{Connector, Ears, Made};
use crate::error::Failure;
use crate::probe::ServerInfo;

impl Connector {
    /// Given up when another server becomes the primary meanwhile; then that one is tried.
    pub(crate) async fn reach_primary(&self, lookout: &Lookout, ears: Ears) -> Result<Made, Failure> {
        loop {
            let Primary { at, term } = lookout.primary().await?;
            let there = self.at(at);
            // Less than the whole attempt has, so that the doubt is noted.
            let limit = self.config.connect_timeout / 4 * 3;
            tokio::select! {
                biased;
                () = lookout.left(term) => {}
                made = timeout(limit, there.attempt_as_primary(ears)) => {
                    let made = made.unwrap_or_else(|_| Err(Failure::unreachable(there.late(limit))));
                    match &made {
                        Ok(_) => lookout.confirm(term),
                        Err(_) => lookout.doubt(term),
                    }
                    return made.map(|(connection, info)| Made { connection, info, term });
                }
            }
        }
    }

    async fn attempt_as_primary(&self, ears: Ears) -> Result<(MultiplexedConnection, ServerInfo), Failure> {
        let (mut connection, info) = self.attempt(ears).await?;
        self.demand_primary(&mut connection).await?;
        Ok((connection, info))
    }

    /// One `ROLE`.
    pub(crate) async fn demand_primary(&self, connection: &mut MultiplexedConnection) -> Result<(), Failure> {
        let role = cmd("ROLE").query_async::<Vec<Value>>(connection).await;
        let role = role.map_err(|error| self.failure(&error))?;
        match role.into_iter().next().map(redis::from_redis_value::<String>) {
            Some(Ok(role)) if role == "master" => Ok(()),
            _ => Err(Failure {
                kind: ErrorKind::Refused(Refusal::ReadOnly),
                detail: format!("{} is not a primary", self.name()),
            }),
        }
    }
}
