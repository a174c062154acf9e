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
    let (info, script, tracking) = tokio::join!(
        ask(connection(), cmd("INFO").arg("server").to_owned()),
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

fn read_info(value: &Value) -> ServerInfo {
    let text = redis::from_redis_value_ref::<String>(value).unwrap_or_default();
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().trim().to_owned()
    };
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
