//! The one error type: what went wrong, to which operation on which key, and what may be done about it.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::time::Timestamp;

/// A failed operation.
///
/// That somebody else holds the lock is not an error but a value. What remains is told apart by [`Error::kind`];
/// the predicates answer the questions a caller has: may I simply try again, and may it have happened?
#[derive(Clone, Debug)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    key: Option<String>,
    detail: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's argument is wrong; nothing was sent.
    BadArgument,
    /// The key holds something that is not ours to touch (a list, a hash, or a damaged side key). Nothing was changed.
    WrongType,
    /// The server answered that it did not do it. *Not applied.*
    Refused(Refusal),
    /// No connection within the limit; nothing was sent. *Not applied.*
    Unreachable,
    /// Too many steps that wait for replicas or disks were under way, so its turn did not come; nothing was sent. *Not
    /// applied.* The server is there.
    Crowded,
    /// It reached the server after its time had passed, so the server took nothing. *Not applied.*
    TooLate,
    /// It was sent and no answer came. *It may or may not have been applied*, now or later, but not after the given
    /// server time. What may have been taken is given back in the background.
    OutcomeUnknown {
        /// The server applies it no later than this, by its own clock. `None` where the operation takes nothing, and where
        /// plain commands without scripts take it: those cannot carry a time.
        not_after: Option<Timestamp>,
    },
    /// The primary did it, and fewer than were asked for acknowledged it in time. It is given back (an acquire), or does
    /// not count (a renewal). **Not** a lease.
    NotDurable {
        /// So many are known to have acknowledged it.
        acknowledged: u32,
        /// So many should have.
        wanted: u32,
    },
    /// Somebody else holds it (only where a caller asked for busy as an error).
    Busy,
    /// The lease ended before the work did, or before the answer to its acquisition came.
    Lost,
    /// This server, store or platform cannot do it.
    Unsupported,
    /// The keeper was closed.
    Closed,
    /// A reply that no server of ours sends. It may have been applied; what may have been taken is given back.
    Protocol,
}

/// Why a server refused, from the first word of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// `READONLY`: this server is a replica.
    ReadOnly,
    /// `OOM`: its memory is full.
    OutOfMemory,
    /// `NOPERM`: the user lacks a permission.
    NoPermission,
    /// `NOAUTH` or `WRONGPASS`.
    NotAuthenticated,
    /// `LOADING`: it is reading its data set.
    Loading,
    /// `MISCONF`: it cannot persist and was told to stop writing.
    Misconfigured,
    /// `NOREPLICAS`: too few replicas are in sync.
    NoReplicas,
    /// `BUSY`: a script is running for too long.
    BusyScript,
    /// `MOVED`, `ASK`, `CROSSSLOT`: it is a cluster, and was not asked as one.
    Cluster,
    /// `CLUSTERDOWN`, `TRYAGAIN`: the cluster cannot serve the key for now.
    ClusterDown,
    /// `MASTERDOWN`: a replica without its primary.
    PrimaryDown,
    /// Anything else.
    Other,
}

impl Error {
    /// An error of `kind` in `operation` (a verb such as `acquire`), in words for a person.
    pub fn new(kind: ErrorKind, operation: &'static str, detail: impl Into<String>) -> Self {
        Self { inner: Box::new(Inner { kind, operation, key: None, detail: detail.into(), source: None }) }
    }

    /// A wrong argument.
    pub fn bad_argument(operation: &'static str, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadArgument, operation, detail)
    }

    /// Names the key.
    #[must_use]
    pub fn with_key(mut self, key: impl fmt::Display) -> Self {
        self.inner.key = Some(key.to_string());
        self
    }

    /// Adds what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(Arc::from(source.into()));
        self
    }

    /// Which kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The operation that failed.
    pub fn operation(&self) -> &'static str {
        self.inner.operation
    }

    /// The key it was about, as displayed.
    pub fn key(&self) -> Option<&str> {
        self.inner.key.as_deref()
    }

    /// What happened, without operation and key.
    pub fn detail(&self) -> &str {
        &self.inner.detail
    }

    /// Somebody else holds the lock.
    pub fn is_busy(&self) -> bool {
        self.kind() == ErrorKind::Busy
    }

    /// The lease ended before the work did.
    pub fn is_lost(&self) -> bool {
        self.kind() == ErrorKind::Lost
    }

    /// Fewer than were asked for acknowledged it in time: it was given back, or does not count.
    pub fn is_not_durable(&self) -> bool {
        matches!(self.kind(), ErrorKind::NotDurable { .. })
    }

    /// No answer came, so it may have been applied.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self.kind(), ErrorKind::OutcomeUnknown { .. })
    }

    /// It may have been applied, or may still be: there was no answer, or none that makes sense.
    pub fn may_have_been_applied(&self) -> bool {
        matches!(self.kind(), ErrorKind::OutcomeUnknown { .. } | ErrorKind::Protocol)
    }

    /// Trying again later, unchanged, may succeed: the cause is the network or the state of the server.
    pub fn is_transient(&self) -> bool {
        match self.kind() {
            ErrorKind::Unreachable
            | ErrorKind::Crowded
            | ErrorKind::TooLate
            | ErrorKind::OutcomeUnknown { .. }
            | ErrorKind::NotDurable { .. }
            | ErrorKind::Busy => true,
            ErrorKind::Refused(refusal) => refusal.is_transient(),
            _ => false,
        }
    }
}

impl Refusal {
    /// From the first word of a server's error.
    pub fn from_code(code: &str) -> Self {
        match code {
            "READONLY" => Self::ReadOnly,
            "OOM" => Self::OutOfMemory,
            "NOPERM" => Self::NoPermission,
            "NOAUTH" | "WRONGPASS" => Self::NotAuthenticated,
            "LOADING" => Self::Loading,
            "MISCONF" => Self::Misconfigured,
            "NOREPLICAS" => Self::NoReplicas,
            "BUSY" => Self::BusyScript,
            "MOVED" | "ASK" | "CROSSSLOT" => Self::Cluster,
            "CLUSTERDOWN" | "TRYAGAIN" => Self::ClusterDown,
            "MASTERDOWN" => Self::PrimaryDown,
            _ => Self::Other,
        }
    }

    /// Trying again later may help without anybody changing a configuration.
    pub fn is_transient(self) -> bool {
        !matches!(self, Self::NoPermission | Self::NotAuthenticated | Self::Cluster | Self::Other)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner.operation)?;
        if let Some(key) = &self.inner.key {
            write!(f, " {key}")?;
        }
        write!(f, ": {}", self.kind())?;
        if !self.inner.detail.is_empty() {
            write!(f, ": {}", self.inner.detail)?;
        }
        Ok(())
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadArgument => "bad argument",
            Self::WrongType => "the key holds something else",
            Self::Refused(_) => "the server refused",
            Self::Unreachable => "the store cannot be reached",
            Self::Crowded => "too many wait for replicas or disks",
            Self::TooLate => "it reached the server too late and was not applied",
            Self::OutcomeUnknown { .. } => "outcome unknown",
            Self::NotDurable { .. } => "not durable enough",
            Self::Busy => "busy",
            Self::Lost => "the lease was lost",
            Self::Unsupported => "not supported here",
            Self::Closed => "the keeper is closed",
            Self::Protocol => "unexpected reply",
        })
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_a_sentence_with_operation_key_kind_and_detail() {
        let error =
            Error::new(ErrorKind::Refused(Refusal::OutOfMemory), "acquire", "OOM command not allowed")
                .with_key("lock:a");
        assert_eq!(error.to_string(), "acquire lock:a: the server refused: OOM command not allowed");
        assert!(error.is_transient() && !error.is_outcome_unknown());
    }

    #[test]
    fn an_unknown_outcome_is_neither_busy_nor_lost() {
        let error = Error::new(ErrorKind::OutcomeUnknown { not_after: None }, "renew", "");
        assert!(error.is_outcome_unknown() && !error.is_busy() && !error.is_lost());
    }
}
