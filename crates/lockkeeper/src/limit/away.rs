//! What to do when the store is away.

use lockkeeper_core::{Error, ErrorKind};

/// What a limiter does when the store cannot decide in time. The caller's choice, because both answers are wrong for
/// somebody.
///
/// *Away* is whatever [`Error::is_transient`] says (unreachable, too late, outcome unknown, a refusal that passes by
/// itself), a cluster that is down, and a key that holds something that is not ours. Missing permissions, an unsupported
/// server or a bad argument are mistakes, and stay errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenAway {
    /// The check fails with the store's error: an answer of "unavailable", never of "quota exhausted".
    #[default]
    Refuse,
    /// Everything is allowed, marked as not checked.
    Allow,
    /// This process decides by itself, within its share: the limit divided by this number of instances. The share is
    /// kept warm while the store is there, so that an outage hands out no fresh quota. A limit smaller than the number of
    /// instances leaves no share: then everything is refused.
    Share {
        /// How many processes divide the limit among themselves; at least one.
        instances: u32,
    },
}

/// The store cannot decide, and this is for the policy to handle.
pub(super) fn is_away(error: &Error) -> bool {
    (error.is_transient() && !error.is_busy())
        || matches!(error.kind(), ErrorKind::WrongType | ErrorKind::Protocol)
}

/// No answer came: a call more would cost a time-out more.
pub(super) fn is_silent(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::OutcomeUnknown { .. } | ErrorKind::TooLate)
}
