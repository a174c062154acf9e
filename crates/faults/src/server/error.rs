//! What can go wrong around a server process, with the end of its log where that tells why.

use std::io;
use std::process::ExitStatus;

use super::binary::ServerKind;

/// An error of starting, controlling or talking to a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// There is no binary for this kind of server.
    #[error("no server binary for {kind}: set {} to the path of one", kind.variable())]
    NotFound {
        /// The kind that was asked for.
        kind: ServerKind,
    },
    /// The library that fakes a server's wall clock is not installed.
    #[error("libfaketime.so.1 was not found: install libfaketime, or set LOCKKEEPER_LIBFAKETIME to its path")]
    FakeTimeMissing,
    /// PostgreSQL is not installed, or there is no user whom it could run as.
    #[error(
        "PostgreSQL was not found: install it, or set LOCKKEEPER_POSTGRES_BIN to the folder of its programs"
    )]
    PostgresMissing,
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The server ended while it was expected to start.
    #[error("the server ended with {status} while starting; the end of its log:\n{log}")]
    Exited {
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// The server did not answer in time after its start.
    #[error("the server did not answer in time; the end of its log:\n{log}")]
    NotReady {
        /// The end of its log.
        log: String,
    },
    /// The server is not running.
    #[error("the server is not running")]
    NotRunning,
    /// The server did not reach the state that a signal asks for in time.
    #[error("the server did not {what} in time")]
    Unresponsive {
        /// What it should have done.
        what: &'static str,
    },
    /// The server answered something that is not RESP2.
    #[error("the answer is not RESP2: {0}")]
    Protocol(String),
}

impl ServerError {
    /// Names what was being done when the system said no; for `map_err`.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> ServerError {
        move |source| ServerError::Io { what, source }
    }

    /// Whether the server ended because another process had its port.
    pub(crate) fn is_port_taken(&self) -> bool {
        matches!(self, ServerError::Exited { log, .. } if log.contains("Address already in use"))
    }
}
