//! What stands on the keeper's timeline: whatever has a lease to be renewed.

use std::sync::Weak;

use futures_util::future::BoxFuture;

use super::outcome::LossReason;
use super::permits::{self, HeldPermit};
use super::tenure::Tenure;
use super::watchdog;
use crate::once::{self, HeldAttempt};

/// A lease of this keeper.
#[derive(Clone)]
pub(crate) enum Tended {
    Lock(Weak<Tenure>),
    Permit(Weak<HeldPermit>),
    Attempt(Weak<HeldAttempt>),
}

impl Tended {
    /// Does what is due for it; see [`watchdog::tend`].
    pub(crate) fn tend(&self) -> Option<BoxFuture<'static, ()>> {
        match self {
            Self::Lock(tenure) => watchdog::tend(&tenure.upgrade()?),
            Self::Permit(permit) => permits::tend(&permit.upgrade()?),
            Self::Attempt(attempt) => once::tend(&attempt.upgrade()?),
        }
    }

    /// Which one it is, among all for which something is kept.
    pub(crate) fn address(&self) -> usize {
        match self {
            Self::Lock(tenure) => tenure.as_ptr().addr(),
            Self::Permit(permit) => permit.as_ptr().addr(),
            Self::Attempt(attempt) => attempt.as_ptr().addr(),
        }
    }

    /// Another server has become the primary since it was seen last.
    pub(crate) fn is_of_an_earlier_term(&self) -> bool {
        match self {
            Self::Lock(tenure) => tenure.upgrade().is_some_and(|tenure| tenure.is_of_an_earlier_term()),
            Self::Permit(permit) => permit.upgrade().is_some_and(|permit| permit.is_of_an_earlier_term()),
            Self::Attempt(attempt) => {
                attempt.upgrade().is_some_and(|attempt| attempt.is_of_an_earlier_term())
            }
        }
    }

    /// The server may have been restarted. What is renewed finds out by that.
    pub(crate) fn doubt(&self) {
        if let Self::Lock(tenure) = self
            && let Some(tenure) = tenure.upgrade()
        {
            tenure.doubt();
        }
    }

    /// Ends it for whoever holds it; true if somebody held it until now.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        match self {
            Self::Lock(tenure) => tenure.upgrade().is_some_and(|tenure| tenure.lose(reason)),
            Self::Permit(permit) => permit.upgrade().is_some_and(|permit| permit.lose(reason)),
            Self::Attempt(attempt) => attempt.upgrade().is_some_and(|attempt| attempt.lose(reason)),
        }
    }
}
