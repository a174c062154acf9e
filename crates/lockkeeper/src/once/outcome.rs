//! What may come of it: answers that are values, and the errors of work that was to run once.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::Error;
use lockkeeper_core::idempotency::Stored;
use lockkeeper_core::lock::{Fence, Holder};

use super::attempt::Attempt;

/// The answer to [`Once::begin`](crate::Once::begin).
#[derive(Debug)]
#[must_use = "a claim that is not looked at counts as crashed"]
pub enum Begun {
    /// The right to run it is yours.
    Claimed(Attempt),
    /// It has run, and ended with this.
    Completed(Replay),
    /// Another attempt runs.
    Running {
        /// Whose.
        holder: Holder,
        /// Which; the first is one.
        attempt: u64,
        /// What is left of its lease, which may be renewed. Never zero.
        retry_after: Duration,
    },
    /// The key belongs to a different request.
    DifferentRequest,
    /// An attempt went away, and nobody knows whether it had its effect. See
    /// [`OnCrash::Hold`](lockkeeper_core::idempotency::OnCrash::Hold).
    Unknown {
        /// Whose.
        holder: Holder,
        /// Its fence: whoever resolves it names it.
        fence: Fence,
        /// How long that is held.
        remaining: Duration,
    },
}

/// What is kept of an operation that has run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replay {
    /// Its result.
    pub stored: Stored,
    /// The fence of the attempt that completed it.
    pub fence: Fence,
    /// How long it is still remembered.
    pub remaining: Duration,
}

/// A completion that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completed {
    /// How long it is remembered.
    pub remaining: Duration,
}

/// Why [`Once::run`](crate::Once::run) has no value of this key to give.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError<T, E> {
    /// Another attempt runs.
    Running {
        /// Whose.
        holder: Holder,
        /// Which; the first is one.
        attempt: u64,
        /// What is left of its lease, which may be renewed. Never zero.
        retry_after: Duration,
    },
    /// The key belongs to a different request.
    DifferentRequest,
    /// An attempt went away, and nobody knows whether it had its effect.
    Unknown {
        /// Whose.
        holder: Holder,
        /// Its fence: whoever resolves it names it.
        fence: Fence,
        /// How long that is held.
        remaining: Duration,
    },
    /// It has run, and its result was too large to be kept, or could not be written.
    NotKept,
    /// It has run, and what is kept of it does not read as the type that was asked for.
    Result(serde_json::Error),
    /// The work failed, and says so. Where it had not ended its attempt by itself, that is abandoned as without an effect: the
    /// key is open, or, after a takeover, for the next takeover; as soon as the store is told, which goes on in the background if need
    /// be; and unless the claim had been lost.
    Work(E),
    /// The claim was lost; the work was dropped. It may have had its effect, if it had begun.
    Lost(Error),
    /// The work has finished with this, and that could not be recorded: no answer came (it is tried on in the background), the
    /// store refused, or the claim had been lost. Whoever comes later may run it again.
    Unrecorded {
        /// What the work returned.
        value: T,
        /// Why it was not recorded; [lost](Error::is_lost) where another attempt may have begun.
        error: Error,
    },
    /// Nothing was begun: the request is not valid, or the store did not answer.
    Store(Error),
}

impl<T, E: fmt::Display> fmt::Display for RunError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { holder, attempt, .. } => write!(f, "attempt {attempt} runs, of {holder}"),
            Self::DifferentRequest => write!(f, "the key belongs to a different request"),
            Self::Unknown { holder, .. } => {
                write!(f, "an attempt of {holder} went away, and whether it had its effect is not known")
            }
            Self::NotKept => write!(f, "it has run, and its result was not kept"),
            Self::Result(error) => write!(f, "it has run, and its result reads otherwise: {error}"),
            Self::Work(error) => error.fmt(f),
            Self::Unrecorded { error, .. } => write!(f, "it has run, and that was not recorded: {error}"),
            Self::Lost(error) | Self::Store(error) => error.fmt(f),
        }
    }
}

impl<T: fmt::Debug, E: std::error::Error + 'static> std::error::Error for RunError<T, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Result(error) => Some(error),
            Self::Work(error) => Some(error),
            Self::Lost(error) | Self::Store(error) | Self::Unrecorded { error, .. } => Some(error),
            _ => None,
        }
    }
}
