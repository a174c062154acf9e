//! How a call ends without an answer.

use std::error::Error;
use std::time::Duration;

/// What a call fails with: the error of the client below, as it came, or [`Shed`].
///
/// ```
/// use lockkeeper_tower::retry_after::{BoxError, Shed};
///
/// fn was_sent(error: &BoxError) -> bool {
///     error.downcast_ref::<Shed>().is_none()
/// }
/// ```
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A request that was not sent. An earlier attempt of the same call may have been, and was then refused or failed.
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
    /// The client below was not ready in time.
    #[error("the client was not ready in time")]
    NotReady,
    /// As many requests as allowed wait for the origin already.
    #[error("too many requests wait for the server already")]
    TooManyHeldBack,
}
