//! What may come of it: answers that are values, not errors.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::lock::permit::ReleasePermitReply;
use lockkeeper_core::lock::{Fence, Holder, ReleaseReply};
use lockkeeper_core::{Error, ErrorKind, Key};

use super::guard::LockGuard;

/// The answer to an acquisition.
#[derive(Debug)]
#[must_use = "a lock that is not looked at is released at once"]
pub enum Acquired {
    /// It is yours until the lease ends.
    Held(LockGuard),
    /// Somebody else has it.
    Busy(Busy),
}

impl Acquired {
    /// For those who want busy as an error.
    ///
    /// # Errors
    /// Of kind `Busy`, naming the holder.
    pub fn or_busy(self) -> Result<LockGuard, Error> {
        match self {
            Self::Held(guard) => Ok(guard),
            Self::Busy(busy) => Err(busy.into_error()),
        }
    }

    /// The guard, if it is held.
    pub fn held(self) -> Option<LockGuard> {
        match self {
            Self::Held(guard) => Some(guard),
            Self::Busy(_) => None,
        }
    }
}

/// Who is in the way, as of the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The key that was busy (of several, the first).
    pub key: Key,
    /// Who holds it.
    pub holder: Holder,
    /// What is left of the lease; `None` where the key has no expiry, as some foreign clients write it, and
    /// where it is held inside this process (see [`Lock::or_process_local`](crate::Lock::or_process_local)).
    pub remaining: Option<Duration>,
}

impl Busy {
    pub(super) fn into_error(self) -> Error {
        Error::new(ErrorKind::Busy, "acquire", self.to_string()).with_key(&self.key)
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held by {}", self.holder)?;
        match self.remaining {
            Some(remaining) => write!(f, ", {remaining:?} left"),
            None => write!(f, ", no expiry"),
        }
    }
}

/// The answer to a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// It was held until now, and is free.
    Released,
    /// The lease had ended; nobody holds it.
    Expired,
    /// The lease had ended, and somebody else holds it.
    HeldByAnother(Holder),
    /// No answer came. It is released in the background, or lapses with its lease.
    Unknown,
}

impl From<ReleaseReply> for Released {
    fn from(reply: ReleaseReply) -> Self {
        match reply {
            ReleaseReply::Released => Self::Released,
            ReleaseReply::Expired(_) => Self::Expired,
            ReleaseReply::HeldByAnother(_, holder) => Self::HeldByAnother(holder),
        }
    }
}

impl From<ReleasePermitReply> for Released {
    fn from(reply: ReleasePermitReply) -> Self {
        match reply {
            ReleasePermitReply::Released => Self::Released,
            ReleasePermitReply::Expired => Self::Expired,
        }
    }
}

/// The answer to an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extended {
    /// The lease runs for at least the asked length from now.
    Extended,
    /// The lease had ended; nobody holds it. The guard is lost.
    Expired,
    /// The lease had ended, and somebody else holds it. The guard is lost.
    HeldByAnother(Holder),
}

/// The answer to taking over a lock that was handed over.
#[derive(Debug)]
#[must_use = "a lock that is not looked at is released at once"]
#[non_exhaustive]
pub enum TakenOver {
    /// It is yours, with a fresh lease, token and fence.
    Held(LockGuard),
    /// Its lease had ended; nobody holds it.
    Expired,
    /// Somebody else holds it.
    HeldByAnother(Holder),
}

impl LossReason {
    /// The holder gave it away on purpose.
    pub fn is_wanted(&self) -> bool {
        matches!(self, Self::Released | Self::HandedOver)
    }

    /// Its time was over, or it was found to be gone.
    pub(super) fn is_by_time(&self) -> bool {
        match self {
            Self::Expired
            | Self::KeyGone
            | Self::NotRenewed(_)
            | Self::HeldByAnother(_)
            | Self::Failover
            | Self::MaxRenewals => true,
            Self::MaxHold | Self::Released | Self::HandedOver | Self::KeeperClosed => false,
        }
    }
}

/// Why a guard is no longer valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The lease ended.
    Expired,
    /// The key was gone before its lease had ended: removed by force, evicted, or the server came back empty.
    KeyGone,
    /// The lease ended because no renewal succeeded; the last error.
    NotRenewed(String),
    /// Somebody else was found to hold it.
    HeldByAnother(Holder),
    /// Another server has become the primary, and it does not know the lease: nobody, or somebody else, holds the key there.
    Failover,
    /// The bound on the total holding time was reached.
    MaxHold,
    /// The bound on the number of renewals was reached.
    MaxRenewals,
    /// It was released, on purpose.
    Released,
    /// It was handed over to another process, on purpose.
    HandedOver,
    /// The keeper was closed; nobody renews it any more.
    KeeperClosed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => write!(f, "the lease ended"),
            Self::KeyGone => write!(f, "the key was gone before its lease ended"),
            Self::NotRenewed(error) => write!(f, "the lease ended because it could not be renewed: {error}"),
            Self::HeldByAnother(holder) => write!(f, "held by another: {holder}"),
            Self::Failover => write!(f, "lost by a failover: the new primary does not know it"),
            Self::MaxHold => write!(f, "held for as long as was allowed"),
            Self::MaxRenewals => write!(f, "renewed as often as was allowed"),
            Self::Released => write!(f, "released"),
            Self::HandedOver => write!(f, "handed over"),
            Self::KeeperClosed => write!(f, "the keeper was closed"),
        }
    }
}

/// The answer to a forced release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForceReleased {
    /// The shown holder was removed, and the fence raised to this.
    Released(Fence),
    /// Nobody holds it (any more).
    Free,
    /// Somebody else than was shown holds it now; untouched.
    HeldByAnother(Holder),
}
