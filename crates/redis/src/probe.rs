//! Asking a new connection what kind of server it leads to. One round trip.

use lockkeeper_core::{Timestamp, Uptime};
use redis::aio::ConnectionLike;
use redis::{Cmd, Value, cmd};

use crate::clock::ServerClock;
use crate::error::{CallError, Failure, ServerWords, classify};

/// What is known of a server. Asked once per connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// `redis` or `valkey`.
    pub product: String,
    /// Its version, as it says; empty where INFO is refused.
    pub version: String,
    /// The Redis version that it is compatible with, as (major, minor); (0, 0) where INFO is refused.
    pub compatible_with: (u32, u32),
    /// Changes when the server process does.
    pub run_id: String,
    /// `standalone`, `sentinel` or `cluster`.
    pub mode: String,
    /// Client tracking may be used.
    pub tracking: bool,
    /// Scripts may be run.
    pub scripts: bool,
    /// The eviction policy by which the server removes keys that have an expiry, once its memory is full; none where it
    /// evicts nothing, has no limit, or does not say.
    pub evicts: Option<String>,
    /// Read-only scripts have commands of their own (Redis 7.0).
    pub read_only_scripts: bool,
}

const TIME_SCRIPT: &str = "return redis.call('TIME')";

/// Runs the probe's commands side by side on `connection`.
///
/// # Errors
/// The server wants credentials, or the connection broke.
pub(crate) async fn probe(
    connection: impl Fn() -> Box<dyn ConnectionLike + Send>,
    clock: &ServerClock,
) -> Result<ServerInfo, Failure> {
    let sent = clock.uptime();
    let (info, memory, script, tracking) = tokio::join!(
        ask(connection(), cmd("INFO").arg("server").to_owned()),
        ask(connection(), cmd("INFO").arg("memory").to_owned()),
        ask(connection(), cmd("EVAL").arg(TIME_SCRIPT).arg(0).to_owned()),
        ask(connection(), cmd("CLIENT").arg("TRACKINGINFO").to_owned()),
    );
    let mut server = info?.map(|value| read_info(&value)).unwrap_or_default();
    server.scripts = match script? {
        Ok(value) => {
            observe_time(&value, sent, clock);
            true
        }
        Err(words) => !forbids_scripts(&words),
    };
    server.evicts = memory?.ok().and_then(|value| read_eviction(&text(&value)));
    server.tracking = tracking?.is_ok();
    server.read_only_scripts = server.compatible_with >= (7, 0);
    Ok(server)
}

/// A reply or the server's words; fails when nothing can be asked at all.
async fn ask(
    mut connection: Box<dyn ConnectionLike + Send>,
    command: Cmd,
) -> Result<Result<Value, ServerWords>, Failure> {
    let reply = connection.req_packed_command(&command).await.and_then(Value::extract_error);
    match reply.map_err(|error| classify(&error)) {
        Ok(value) => Ok(Ok(value)),
        Err(CallError::Answered(words)) if words.refusal() == lockkeeper_core::Refusal::NotAuthenticated => {
            Err(Failure {
                kind: lockkeeper_core::ErrorKind::Refused(words.refusal()),
                detail: words.text().to_owned(),
            })
        }
        Err(CallError::Answered(words)) => Ok(Err(words)),
        Err(CallError::Broken(detail)) => Err(Failure::unreachable(detail)),
        Err(CallError::Silent) => Err(Failure::unreachable("no answer")),
    }
}

fn forbids_scripts(words: &ServerWords) -> bool {
    words.is_unknown_command() || words.text().contains("'eval'")
}

fn observe_time(value: &Value, sent: Uptime, clock: &ServerClock) {
    if let Ok((seconds, micros)) = redis::from_redis_value_ref::<(u64, u64)>(value) {
        clock.observe(sent, Timestamp::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros)));
    }
}

fn text(value: &Value) -> String {
    redis::from_redis_value_ref::<String>(value).unwrap_or_default()
}

/// A field of INFO; empty where it is not there.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim()
}

fn read_eviction(memory: &str) -> Option<String> {
    let (policy, limit) = (field(memory, "maxmemory_policy"), field(memory, "maxmemory"));
    let may_act =
        !policy.is_empty() && policy != "noeviction" && limit.parse().is_ok_and(|limit: u64| limit > 0);
    may_act.then(|| policy.to_owned())
}

fn read_info(value: &Value) -> ServerInfo {
    let text = text(value);
    let field = |name: &str| field(&text, name).to_owned();
    let (redis, valkey) = (field("redis_version"), field("valkey_version"));
    let mut numbers = redis.split('.').map(|part| part.parse().unwrap_or(0));
    let compatible_with = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    ServerInfo {
        product: if valkey.is_empty() { "redis" } else { "valkey" }.to_owned(),
        version: if valkey.is_empty() { redis } else { valkey },
        compatible_with,
        run_id: field("run_id"),
        mode: field("redis_mode"),
        ..ServerInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_evicts_where_it_has_a_limit_and_a_policy_that_does() {
        for (memory, evicts) in [
            ("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", None),
            ("maxmemory:1\r\nmaxmemory_policy:noeviction\r\n", None),
            ("maxmemory:1\r\n", None),
            ("", None),
            ("maxmemory_human:1B\r\nmaxmemory:1\r\nmaxmemory_policy:volatile-ttl\r\n", Some("volatile-ttl")),
        ] {
            assert_eq!(read_eviction(memory).as_deref(), evicts, "{memory}");
        }
    }
}
