//! What a group is started with.

use std::fmt::Write as _;
use std::time::Duration;

use super::{SERVICE, SentinelGroup};
use crate::server::{RedisServer, ServerBuilder, ServerError};

/// How long a primary must be silent before Sentinels call it down. Shorter, and a busy machine looks like a dead one.
const DOWN_AFTER: Duration = Duration::from_secs(1);
/// How long the Sentinels wait before they try a failed failover again is twice this.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Collects what a group is started with; made by [`SentinelGroup::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SentinelGroupBuilder {
    server: ServerBuilder,
    replicas: usize,
    sentinels: usize,
    down_after: Duration,
    password: Option<String>,
    sentinel_password: Option<String>,
}

impl Default for SentinelGroupBuilder {
    fn default() -> Self {
        Self {
            server: RedisServer::builder(),
            replicas: 2,
            sentinels: 3,
            down_after: DOWN_AFTER,
            password: None,
            sentinel_password: None,
        }
    }
}

impl SentinelGroupBuilder {
    /// How each server is made. With TLS, so are the Sentinels.
    pub fn server(self, server: ServerBuilder) -> Self {
        Self { server, ..self }
    }

    /// How many replicas there are; two by default.
    pub fn replicas(self, replicas: usize) -> Self {
        Self { replicas, ..self }
    }

    /// How many Sentinels there are; three by default. More than half of them decide.
    pub fn sentinels(self, sentinels: usize) -> Self {
        Self { sentinels, ..self }
    }

    /// How long a primary must be silent before Sentinels call it down; one second by default.
    pub fn down_after(self, down_after: Duration) -> Self {
        Self { down_after, ..self }
    }

    /// The password of the servers.
    pub fn password(self, password: impl Into<String>) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    /// The password of the Sentinels.
    pub fn sentinel_password(self, password: impl Into<String>) -> Self {
        Self { sentinel_password: Some(password.into()), ..self }
    }

    /// Starts everything, and waits until the replicas are in sync and every Sentinel knows each replica and each other.
    ///
    /// # Errors
    /// A server does not start, or they do not find each other within a minute.
    pub fn start(self) -> Result<SentinelGroup, ServerError> {
        let primary = self.data_server().start()?;
        let port = primary.port();
        let mut servers = vec![primary];
        for _ in 0..self.replicas {
            servers.push(self.data_server().config("replicaof", format!("127.0.0.1 {port}")).start()?);
        }
        let group = SentinelGroup {
            servers,
            sentinels: Vec::new(),
            password: self.password.clone(),
            sentinel_password: self.sentinel_password.clone(),
        };
        group.wait_in_sync(0)?;
        let sentinels = (0..self.sentinels).map(|_| self.sentinel(port)).collect::<Result<Vec<_>, _>>()?;
        let group = SentinelGroup { sentinels, ..group };
        group.wait_settled(0, self.replicas)?;
        Ok(group)
    }

    fn data_server(&self) -> ServerBuilder {
        let server = self.server.clone();
        let server = server.config("repl-diskless-sync", "yes").config("repl-diskless-sync-delay", "0");
        let server = if server.has_tls() { server.config("tls-replication", "yes") } else { server };
        match &self.password {
            Some(password) => server.password(password).config("masterauth", password),
            None => server,
        }
    }

    fn sentinel(&self, port: u16) -> Result<RedisServer, ServerError> {
        let (quorum, down_after) = (self.sentinels / 2 + 1, self.down_after.as_millis());
        let mut lines = format!("sentinel monitor {SERVICE} 127.0.0.1 {port} {quorum}\n");
        // Writing to a string does not fail.
        let _ = writeln!(lines, "sentinel down-after-milliseconds {SERVICE} {down_after}");
        let _ = writeln!(lines, "sentinel failover-timeout {SERVICE} {}", FAILOVER_TIMEOUT.as_millis());
        let _ = writeln!(lines, "sentinel parallel-syncs {SERVICE} 8");
        if let Some(password) = &self.password {
            let _ = writeln!(lines, "sentinel auth-pass {SERVICE} {password}");
        }
        if let Some(password) = &self.sentinel_password {
            let _ = writeln!(lines, "sentinel sentinel-pass {password}");
        }
        let server = self.server.clone().without_settings().sentinel(lines);
        // That is how it talks to everybody.
        let server = if server.has_tls() { server.config("tls-replication", "yes") } else { server };
        let server = match &self.sentinel_password {
            Some(password) => server.password(password),
            None => server,
        };
        let sentinel = server.start()?;
        // They find each other sooner. Servers before 7.0 do not know it, and take a little longer.
        sentinel.command(&["SENTINEL", "DEBUG", "INFO-PERIOD", "500", "PUBLISH-PERIOD", "300"])?;
        Ok(sentinel)
    }
}
