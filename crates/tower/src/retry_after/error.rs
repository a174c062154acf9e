//! How a call ends without an answer.

use std::time::Duration;

/// Why there is no answer. A refusal *is* an answer, and no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError<E> {
    /// The client below failed, after the retries that were allowed. What the last attempt did is as unknown as the
    /// client below says.
    #[error(transparent)]
    Transport(E),
    /// This attempt was not sent. An earlier one of the same call may have been, and was then refused or failed.
    #[error(transparent)]
    Shed(#[from] Shed),
}

impl<E> ClientError<E> {
    /// The request was kept from being sent.
    pub fn shed(&self) -> Option<&Shed> {
        match self {
            Self::Shed(shed) => Some(shed),
            Self::Transport(_) => None,
        }
    }
}

/// A request that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: {reason}")]
#[non_exhaustive]
pub struct Shed {
    /// Why not.
    pub reason: ShedReason,
    /// For how long the origin still wants no requests, where it said so.
    pub retry_after: Option<Duration>,
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShedReason {
    /// The origin accepted too few of the last requests.
    #[error("the server refuses much of what it is sent")]
    Overload,
    /// The origin said when to come back, and that is later than this request may wait.
    #[error("the server wants no requests for longer than this one may wait")]
    HeldBack,
    /// As many requests as allowed wait for the origin already.
    #[error("too many requests wait for the server already")]
    TooManyHeldBack,
}
