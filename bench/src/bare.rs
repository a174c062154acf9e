//! The bare arm: the same scripts by hand through the same client, as a service without Lockkeeper would send them.
//!
//! No random token, no clock, no watchdog, no deadline, no error classes: it is the least that a lock can cost.

use anyhow::{Result, bail};
use lockkeeper::redis::SCRIPTS;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{IntoConnectionInfo as _, Value};

/// The lease of all arms, in milliseconds.
pub(crate) const LEASE_MS: u64 = 10_000;
const FENCE_RETENTION_MS: u64 = 2 * 24 * 3600 * 1000;
const FENCE_LEAD_US: u64 = 60_000_000;
/// "Not after": never.
const NEVER: u64 = 1 << 53;

/// How the bare arm's socket is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    /// As the client sets it by default: the kernel may hold a small write back until the last one is acknowledged.
    Default,
    /// `TCP_NODELAY`, as Lockkeeper sets it: no write waits for another, and there are more packets.
    NoDelay,
}

/// A connection with the client's own defaults, apart from the socket.
#[derive(Clone)]
pub(crate) struct Bare {
    connection: MultiplexedConnection,
    acquire: &'static str,
    release: &'static str,
}

impl Bare {
    pub(crate) async fn connect(url: &str, socket: Socket) -> Result<Self> {
        let mut info = url.into_connection_info()?;
        if socket == Socket::NoDelay {
            info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        }
        let connection = redis::Client::open(info)?.get_multiplexed_async_connection().await?;
        Ok(Self { connection, acquire: hash_of("acquire")?, release: hash_of("release")? })
    }

    /// For other calls than those of locks.
    pub(crate) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Acquires and releases `name`.
    pub(crate) async fn cycle(&mut self, name: &str, number: u64) -> Result<()> {
        let (key, token) = (main_key(name), token(number));
        self.acquire(&key, &token).await?;
        self.release(&key, &token).await
    }

    pub(crate) async fn acquire(&mut self, key: &str, token: &str) -> Result<()> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.acquire).arg(2).arg(key).arg(format!("lock:~fence:{{{key}}}"));
        command.arg(token).arg(LEASE_MS).arg(NEVER).arg(0).arg(1).arg(FENCE_RETENTION_MS).arg(FENCE_LEAD_US);
        expect(&command.query_async(&mut self.connection).await?, "granted")
    }

    pub(crate) async fn release(&mut self, key: &str, token: &str) -> Result<()> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.release).arg(1).arg(key).arg(token);
        expect(&command.query_async(&mut self.connection).await?, "released")
    }
}

/// The main key, as Lockkeeper writes it.
pub(crate) fn main_key(name: &str) -> String {
    format!("lock:{name}")
}

/// As long as Lockkeeper's own on a host with a short name, and different for each number.
pub(crate) fn token(number: u64) -> String {
    format!("{number:022}@bench:12345:1767225600123")
}

/// The hash of one of Lockkeeper's scripts.
pub(crate) fn hash_of(name: &str) -> Result<&'static str> {
    match SCRIPTS.iter().find(|script| script.name == name) {
        Some(script) => Ok(script.hash()),
        None => bail!("there is no script `{name}`"),
    }
}

/// The second field of the reply is the status.
pub(crate) fn expect(reply: &Value, status: &str) -> Result<()> {
    match reply {
        Value::Array(fields) => match fields.get(1) {
            Some(Value::BulkString(found)) if found == status.as_bytes() => Ok(()),
            _ => bail!("the bare arm: `{status}` was expected, not {reply:?}"),
        },
        _ => bail!("the bare arm: `{status}` was expected, not {reply:?}"),
    }
}
