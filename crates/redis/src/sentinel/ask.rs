//! The questions to one Sentinel, and what is read of its answers.

use std::collections::HashMap;

use lockkeeper_core::ErrorKind;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Pipeline, RedisError, Value, cmd};

use super::votes::Say;
use crate::connect::Connector;
use crate::error::{CallError, Failure, classify};
use crate::url::Address;

/// A longer name of a host is no name.
const MAX_HOST_BYTES: usize = 255;

/// Who is the primary, and since which epoch. One round trip.
///
/// The epoch is asked for first: should they change between the two, the epoch is the earlier one.
pub(super) async fn primary(
    connector: &Connector,
    connection: &mut MultiplexedConnection,
    service: &str,
) -> Result<Say, Failure> {
    let mut both = Pipeline::with_capacity(2);
    both.add_command(cmd("SENTINEL").arg("MASTER").arg(service).to_owned());
    both.add_command(cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(service).to_owned());
    let replies = connection.req_packed_commands(&both, 0, 2).await;
    let mut replies = replies.map_err(|error| connector.failure(&error))?.into_iter();
    let (about, place) = (replies.next().unwrap_or(Value::Nil), replies.next().unwrap_or(Value::Nil));
    let Some(place) = told(connector, place)? else { return Ok(Say::NoService) };
    let Some(about) = told(connector, about)? else { return Ok(Say::NoService) };
    let (host, port): (String, u16) = redis::from_redis_value(place).map_err(|_| unreadable(connector))?;
    let about: HashMap<String, String> = redis::from_redis_value(about).map_err(|_| unreadable(connector))?;
    let epoch = about.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    match epoch {
        Some(epoch) if is_host(&host) && port > 0 => {
            let at = Address::Tcp { host, port, tls: connector.is_tls() };
            Ok(Say::Primary { at, epoch })
        }
        _ => Err(unreadable(connector)),
    }
}

/// Whether the Sentinels that this one hears are enough for a failover; else its words.
pub(super) async fn quorum(
    connector: &Connector,
    connection: &mut MultiplexedConnection,
    service: &str,
) -> Result<Result<(), String>, Failure> {
    let asked = cmd("SENTINEL").arg("CKQUORUM").arg(service).to_owned();
    let reply = connection.req_packed_command(&asked).await.and_then(Value::extract_error);
    match reply.map_err(|error| (classify(&error), error)) {
        Ok(_) => Ok(Ok(())),
        Err((CallError::Answered(words), error)) if words.text().starts_with("NOPERM") => {
            Err(connector.failure(&error))
        }
        Err((CallError::Answered(_), error)) => Ok(Err(connector.failure(&error).detail)),
        Err((_, error)) => Err(connector.failure(&error)),
    }
}

/// What it says; `None` where it watches no such service.
fn told(connector: &Connector, reply: Value) -> Result<Option<Value>, Failure> {
    match reply.extract_error() {
        Ok(Value::Nil) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(error) if is_no_service(&error) => Ok(None),
        Err(error) => Err(connector.failure(&error)),
    }
}

/// It may be the name of a host.
pub(super) fn is_host(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_HOST_BYTES
}

fn is_no_service(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("No such master"))
}

fn unreadable(connector: &Connector) -> Failure {
    Failure {
        kind: ErrorKind::Unsupported,
        detail: format!("{} does not answer as a Sentinel", connector.name()),
    }
}
