//! Why a request is refused, and how that is answered.

use std::time::Duration;

use http::StatusCode;
use serde::Serialize;

use crate::problem::whole_seconds;

/// Where the types of problems are explained.
const TYPES: &str = "https://github.com/lockkeeper/lockkeeper/blob/main/docs/problems.md#";

/// Why a request is refused, or why an answer cannot be replayed. Says nothing of anybody else's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    kind: RefusalKind,
    status: StatusCode,
    retry_after: Option<Duration>,
    detail: String,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The route asks for a key, and there is none: 400.
    KeyMissing,
    /// Several keys, or none that is valid: 400.
    KeyMalformed,
    /// Whose request it is cannot be told: 400, unless set otherwise.
    CallerUnknown,
    /// The request's body is larger than the layer reads: 413.
    BodyTooLarge,
    /// The request's body ended with an error, or says it is JSON and is none that can be compared: 400.
    BodyUnreadable,
    /// A request with this key is being run: 409, with `Retry-After`.
    Running,
    /// The key belongs to a different request: 422.
    DifferentRequest,
    /// A request with this key was cut off, and nobody knows whether it had its effect: 409, without `Retry-After`.
    OutcomeUnknown,
    /// It was done, and its answer was not kept: the status it had then, or 409 where that is not known.
    AnswerNotKept,
    /// The request was run, but its claim was lost meanwhile, so another one may have been run, too: 503.
    AttemptLost,
    /// Whether the request was run before cannot be told right now: 503.
    Unavailable,
}

/// When to come back where nobody can say so.
const SOON: Duration = Duration::from_secs(1);

impl Refusal {
    pub(super) fn new(kind: RefusalKind) -> Self {
        let retry_after = matches!(kind, RefusalKind::AttemptLost | RefusalKind::Unavailable).then_some(SOON);
        Self { kind, status: kind.status(), retry_after, detail: kind.detail().to_owned() }
    }

    pub(super) fn running(retry_after: Duration) -> Self {
        let wait = Some(retry_after.max(Duration::from_nanos(1)));
        Self { retry_after: wait, ..Self::new(RefusalKind::Running) }
    }

    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(super) fn because(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// What kind it is.
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// See [`RefusalKind`].
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What `Retry-After` says, in seconds: rounded up, never 0.
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after.map(whole_seconds)
    }

    /// The problem details (RFC 9457) as JSON.
    pub fn problem(&self) -> String {
        let problem = Problem {
            r#type: [TYPES, self.kind.anchor()].concat(),
            title: self.kind.title(),
            status: self.status.as_u16(),
            detail: &self.detail,
            retry_after: self.retry_after(),
        };
        // Text and numbers alone: there is nothing in it that could fail.
        serde_json::to_string(&problem).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

impl RefusalKind {
    fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyMalformed | Self::CallerUnknown | Self::BodyUnreadable => {
                StatusCode::BAD_REQUEST
            }
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Running | Self::OutcomeUnknown | Self::AnswerNotKept => StatusCode::CONFLICT,
            Self::DifferentRequest => StatusCode::UNPROCESSABLE_ENTITY,
            Self::AttemptLost | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The last part of the problem's type: its heading in `docs/problems.md`.
    fn anchor(self) -> &'static str {
        match self {
            Self::KeyMissing => "idempotency-key-missing",
            Self::KeyMalformed => "idempotency-key-malformed",
            Self::CallerUnknown => "idempotency-caller-unknown",
            Self::BodyTooLarge => "idempotency-body-too-large",
            Self::BodyUnreadable => "idempotency-body-unreadable",
            Self::Running => "idempotency-running",
            Self::DifferentRequest => "idempotency-different-request",
            Self::OutcomeUnknown => "idempotency-outcome-unknown",
            Self::AnswerNotKept => "idempotency-answer-not-kept",
            Self::AttemptLost => "idempotency-attempt-lost",
            Self::Unavailable => "idempotency-unavailable",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "An idempotency key is needed",
            Self::KeyMalformed => "The idempotency key is not valid",
            Self::CallerUnknown => "Whose idempotency key it is cannot be told",
            Self::BodyTooLarge => "The request is too large",
            Self::BodyUnreadable => "The request cannot be read",
            Self::Running => "A request with this idempotency key is being processed",
            Self::DifferentRequest => "The idempotency key was used for a different request",
            Self::OutcomeUnknown => "Whether this request was carried out is not known",
            Self::AnswerNotKept => "This request was carried out before",
            Self::AttemptLost => "This request lost its claim while it was processed",
            Self::Unavailable => "Idempotency keys cannot be checked right now",
        }
    }

    fn detail(self) -> &'static str {
        match self {
            Self::KeyMissing => {
                "Send the header `Idempotency-Key`, with a new random key for each operation."
            }
            Self::KeyMalformed => {
                "The header `Idempotency-Key` must have one key of 1 to 255 printable characters, in quotes or not."
            }
            Self::CallerUnknown => {
                "Idempotency keys belong to who sends them, and the request does not tell."
            }
            Self::BodyTooLarge => "Requests with an idempotency key are read as a whole, up to a limit.",
            Self::BodyUnreadable => "The body ended too early.",
            Self::Running => "Send the same request again later to get its answer.",
            Self::DifferentRequest => {
                "A key can be used again for the same request only. Use a new one for a new request."
            }
            Self::OutcomeUnknown => {
                "It was cut off while it was processed. It is not repeated, because it may have had its effect. \
                 Somebody has to look."
            }
            Self::AnswerNotKept => {
                "It is not repeated. Its answer was too large to be kept, or is not known here."
            }
            Self::AttemptLost => {
                "It was processed, but another attempt may have been, too. Send the same request again to learn \
                 which answer counts."
            }
            Self::Unavailable => "The request was not processed. Send it again later.",
        }
    }
}

#[cfg(test)]
impl RefusalKind {
    pub(super) const ALL: [Self; 11] = [
        Self::KeyMissing,
        Self::KeyMalformed,
        Self::CallerUnknown,
        Self::BodyTooLarge,
        Self::BodyUnreadable,
        Self::Running,
        Self::DifferentRequest,
        Self::OutcomeUnknown,
        Self::AnswerNotKept,
        Self::AttemptLost,
        Self::Unavailable,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_explained() {
        let page = include_str!("../../../../docs/problems.md");
        for kind in RefusalKind::ALL {
            assert!(page.contains(&format!("## {}\n", kind.anchor())), "{kind:?}");
            let problem = Refusal::new(kind).problem();
            assert!(problem.contains(&format!("docs/problems.md#{}\"", kind.anchor())), "{problem}");
        }
    }

    #[test]
    fn waits_are_rounded_up_and_never_zero() {
        let wait = |wait| Refusal::running(wait).retry_after();
        assert_eq!(wait(Duration::ZERO), Some(1));
        assert_eq!(wait(Duration::from_millis(2001)), Some(3));
        assert_eq!(Refusal::new(RefusalKind::OutcomeUnknown).retry_after(), None);
    }
}
