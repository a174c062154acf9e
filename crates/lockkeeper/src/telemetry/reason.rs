//! Reasons as words: a closed set, so that a label has few values.

use lockkeeper_core::{Error, ErrorKind};

use crate::lock::{LossReason, Released};

/// The value of a `reason` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It succeeded.
    None,
    BadArgument,
    Busy,
    Cancelled,
    Closed,
    Crowded,
    Expired,
    Failover,
    HeldByAnother,
    KeyGone,
    Lost,
    MaxHold,
    MaxRenewals,
    NotDurable,
    NotRenewed,
    OutcomeUnknown,
    Protocol,
    Refused,
    TooLate,
    Unreachable,
    Unsupported,
    WrongType,
}

impl Reason {
    /// In the order of their numbers.
    pub(super) const ALL: [Self; 22] = [
        Self::None,
        Self::BadArgument,
        Self::Busy,
        Self::Cancelled,
        Self::Closed,
        Self::Crowded,
        Self::Expired,
        Self::Failover,
        Self::HeldByAnother,
        Self::KeyGone,
        Self::Lost,
        Self::MaxHold,
        Self::MaxRenewals,
        Self::NotDurable,
        Self::NotRenewed,
        Self::OutcomeUnknown,
        Self::Protocol,
        Self::Refused,
        Self::TooLate,
        Self::Unreachable,
        Self::Unsupported,
        Self::WrongType,
    ];

    /// Those of [`of_loss`](Self::of_loss).
    pub(super) const LOSSES: [Self; 8] = [
        Self::Expired,
        Self::Failover,
        Self::KeyGone,
        Self::NotRenewed,
        Self::HeldByAnother,
        Self::MaxHold,
        Self::MaxRenewals,
        Self::Closed,
    ];

    /// The word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::BadArgument => "bad_argument",
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
            Self::Crowded => "crowded",
            Self::Expired => "expired",
            Self::Failover => "failover",
            Self::HeldByAnother => "held_by_another",
            Self::KeyGone => "key_gone",
            Self::Lost => "lost",
            Self::MaxHold => "max_hold",
            Self::MaxRenewals => "max_renewals",
            Self::NotDurable => "not_durable",
            Self::NotRenewed => "not_renewed",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Protocol => "protocol",
            Self::Refused => "refused",
            Self::TooLate => "too_late",
            Self::Unreachable => "unreachable",
            Self::Unsupported => "unsupported",
            Self::WrongType => "wrong_type",
        }
    }

    /// What a `result` label says about it.
    pub(super) const fn result(self) -> &'static str {
        match self {
            Self::None => "success",
            _ => "failed",
        }
    }

    /// Why a lock was lost; `None` for a wanted release.
    pub(super) fn of_loss(reason: &LossReason) -> Option<Self> {
        Some(match reason {
            LossReason::Released | LossReason::HandedOver => return None,
            LossReason::Expired => Self::Expired,
            LossReason::KeyGone => Self::KeyGone,
            LossReason::Failover => Self::Failover,
            LossReason::NotRenewed(_) => Self::NotRenewed,
            LossReason::HeldByAnother(_) => Self::HeldByAnother,
            LossReason::MaxHold => Self::MaxHold,
            LossReason::MaxRenewals => Self::MaxRenewals,
            LossReason::KeeperClosed => Self::Closed,
        })
    }

    /// The lease had ended when the release came.
    pub(crate) fn is_late(self) -> bool {
        matches!(self, Self::Expired | Self::HeldByAnother)
    }
}

impl From<&Error> for Reason {
    fn from(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::BadArgument => Self::BadArgument,
            ErrorKind::WrongType => Self::WrongType,
            ErrorKind::Refused(_) => Self::Refused,
            ErrorKind::Unreachable => Self::Unreachable,
            ErrorKind::Crowded => Self::Crowded,
            ErrorKind::TooLate => Self::TooLate,
            ErrorKind::OutcomeUnknown { .. } => Self::OutcomeUnknown,
            ErrorKind::NotDurable { .. } => Self::NotDurable,
            ErrorKind::Busy => Self::Busy,
            ErrorKind::Lost => Self::Lost,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Closed => Self::Closed,
            // The kinds are open; what is not known here is a reply that nobody expected.
            _ => Self::Protocol,
        }
    }
}

impl From<&Released> for Reason {
    fn from(released: &Released) -> Self {
        match released {
            Released::Released => Self::None,
            Released::Expired => Self::Expired,
            Released::HeldByAnother(_) => Self::HeldByAnother,
            Released::Unknown => Self::OutcomeUnknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_stands_at_its_number_and_the_page_names_it() {
        let page = include_str!("../guide/telemetry.md");
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
            assert!(page.contains(&format!("`{}`", reason.word())), "{}", reason.word());
        }
    }
}
