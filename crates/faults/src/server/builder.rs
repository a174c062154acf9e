//! The builder of a server: what it is, on what it listens, with what it is configured.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use super::binary::{ServerKind, find_binary};
use super::clock::FakeClock;
use super::error::ServerError;
use super::guard::RedisServer;
use super::settings::{Listen, Settings, Tls};

/// How often a new port is tried when another process was faster.
const PORT_ATTEMPTS: u32 = 10;

/// Collects what a server is started with; made by [`RedisServer::builder`].
///
/// Nothing here knows the role of a server: a replica or a cluster node is a matter of [`ServerBuilder::config`]. Only a
/// Sentinel is a program of its own kind.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ServerBuilder {
    settings: Settings,
}

impl ServerBuilder {
    /// The kind of server; [`ServerKind::Redis`] by default.
    pub fn kind(mut self, kind: ServerKind) -> Self {
        self.settings.kind = kind;
        self
    }

    /// The kind that was chosen.
    pub(crate) fn kind_of(&self) -> ServerKind {
        self.settings.kind
    }

    /// Listens on a unix socket in its folder, as well as on TCP.
    pub fn unix_socket(mut self) -> Self {
        self.settings.listen = Listen::Both;
        self
    }

    /// Listens on a unix socket in its folder, and not on TCP.
    pub fn unix_socket_only(mut self) -> Self {
        self.settings.listen = Listen::Unix;
        self
    }

    /// Sets one option of the server, passed as `--key value`.
    ///
    /// A value of several words is passed as several arguments, an empty one as an empty argument. The
    /// options come after those of the builder, in the order of the calls.
    pub fn config(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.config.push((key.into(), value.into()));
        self
    }

    /// The password that the default user needs. [`RedisServer::command`] uses it.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.settings.password = Some(password.into());
        self
    }

    /// Speaks TLS on its port, with this certificate, this key and this authority (PEM files). Clients need
    /// no certificate unless `tls-auth-clients` is configured. The binary has to be built with TLS.
    pub fn tls(mut self, cert: impl AsRef<Path>, key: impl AsRef<Path>, ca: impl AsRef<Path>) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.settings.tls = Some(Tls {
            cert: absolute(cert.as_ref()),
            key: absolute(key.as_ref()),
            ca: absolute(ca.as_ref()),
        });
        self
    }

    /// Shows this clock to the server as its wall clock.
    pub fn faketime(mut self, clock: &FakeClock) -> Self {
        self.settings.clock = Some(clock.clone());
        self
    }

    /// Keeps an append-only file, flushed every second; without this, nothing is written.
    pub fn persistent(mut self) -> Self {
        self.settings.persistent = true;
        self
    }

    /// Makes it a Sentinel, with these lines in its file. It writes what it learns into the file, so a restarted one
    /// remembers it.
    pub fn sentinel(mut self, lines: impl Into<String>) -> Self {
        self.settings.sentinel = Some(lines.into());
        self
    }

    /// The same kind of server, with TLS if it has that, without anything else that was set.
    pub(crate) fn without_settings(self) -> Self {
        let Settings { kind, tls, .. } = self.settings;
        Self { settings: Settings { kind, tls, ..Settings::default() } }
    }

    /// It speaks TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.settings.tls.is_some()
    }

    /// Starts the server and waits, at most ten seconds, until it answers.
    pub fn start(self) -> Result<RedisServer, ServerError> {
        let kind = self.settings.kind;
        let binary = find_binary(kind).ok_or(ServerError::NotFound { kind })?;
        let mut attempt = 1;
        loop {
            let port = free_port().map_err(ServerError::io("looking for a free port"))?;
            match RedisServer::start(&self.settings, &binary, port) {
                Err(error) if error.is_port_taken() && attempt < PORT_ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }
}

/// A port that nobody listens on at this moment.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
