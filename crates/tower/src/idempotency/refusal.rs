//! Why a request is refused, and how that is answered.

use std::time::Duration;

use http::StatusCode;
use serde::Serialize;

use super::outcome::Outcome;
use crate::problem::whole_seconds;

/// Where the types of problems are explained.
const TYPES: &str = "https://github.com/lockkeeper/lockkeeper/blob/main/docs/problems.md#";

/// Why a request is refused, or why an answer cannot be replayed. Says nothing of anybody else's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    kind: RefusalKind,
    status: StatusCode,
    retry_after: Option<Duration>,
    held_for: Option<Duration>,
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
    /// A request with this key was cut off, and nobody knows whether it had its effect: 409, without `Retry-After`. It is
    /// not repeated before [`Refusal::held_for`] is over.
    OutcomeUnknown,
    /// It was done, and its answer was not kept: the status it had then, or 409 where that is not known.
    AnswerNotKept,
    /// The request was run, but its claim went to somebody else meanwhile, whose answer counts: 409, without `Retry-After`.
    AttemptLost,
    /// The request was run, and its record is gone, so nothing protects against a second time: 409, without `Retry-After`.
    RecordLost,
    /// The request was cut off, because the server is ending: 503.
    CutOff,
    /// Whether the request was run before cannot be told right now: 503.
    Unavailable,
    /// Whether the request was run before cannot be told, and waiting does not help: 500, without `Retry-After`.
    Unusable,
}

/// When to come back where nobody can say so.
const SOON: Duration = Duration::from_secs(1);

impl Refusal {
    pub(super) fn new(kind: RefusalKind) -> Self {
        let retry_after = matches!(kind, RefusalKind::CutOff | RefusalKind::Unavailable).then_some(SOON);
        Self { kind, status: kind.status(), retry_after, held_for: None, detail: kind.detail().to_owned() }
    }

    pub(super) fn running(retry_after: Duration) -> Self {
        let wait = Some(retry_after.max(Duration::from_nanos(1)));
        Self { retry_after: wait, ..Self::new(RefusalKind::Running) }
    }

    pub(super) fn outcome_unknown(held_for: Duration) -> Self {
        Self { held_for: Some(held_for), ..Self::new(RefusalKind::OutcomeUnknown) }
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

    /// For how many seconds the request is not repeated, where its outcome is not known: rounded up.
    pub fn held_for(&self) -> Option<u64> {
        self.held_for.map(whole_seconds)
    }

    /// The problem details (RFC 9457) as JSON.
    pub fn problem(&self) -> String {
        let problem = Problem {
            r#type: [TYPES, self.kind.anchor()].concat(),
            title: self.kind.title(),
            status: self.status.as_u16(),
            detail: &self.detail,
            retry_after: self.retry_after(),
            held_for: self.held_for(),
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
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_for: Option<u64>,
}

impl RefusalKind {
    /// What a layer further out is to make of it, for a key of its own; `None` where the answer's status says it.
    pub(super) fn outcome(self) -> Option<Outcome> {
        match self {
            Self::AnswerNotKept => None,
            Self::OutcomeUnknown | Self::AttemptLost | Self::RecordLost | Self::CutOff => {
                Some(Outcome::Crashed)
            }
            _ => Some(Outcome::NoEffect),
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyMalformed | Self::CallerUnknown | Self::BodyUnreadable => {
                StatusCode::BAD_REQUEST
            }
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Running
            | Self::OutcomeUnknown
            | Self::AnswerNotKept
            | Self::AttemptLost
            | Self::RecordLost => StatusCode::CONFLICT,
            Self::DifferentRequest => StatusCode::UNPROCESSABLE_ENTITY,
            Self::CutOff | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unusable => StatusCode::INTERNAL_SERVER_ERROR,
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
            Self::RecordLost => "idempotency-record-lost",
            Self::CutOff => "idempotency-cut-off",
            Self::Unavailable => "idempotency-unavailable",
            Self::Unusable => "idempotency-unusable",
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
            Self::RecordLost => "This request was carried out, and its record is lost",
            Self::CutOff => "This request was cut off",
            Self::Unavailable => "Idempotency keys cannot be checked right now",
            Self::Unusable => "Idempotency keys cannot be checked",
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
            Self::BodyUnreadable => "The body ended too early, or was larger than a limit on its way.",
            Self::Running => "Send the same request again later to get its answer.",
            Self::DifferentRequest => {
                "A key can be used again for the same request only. Use a new one for a new request."
            }
            Self::OutcomeUnknown => {
                "It was cut off while it was processed. It is not repeated for as long as it is held, because it may \
                 have had its effect. Somebody has to look."
            }
            Self::AnswerNotKept => {
                "It is not repeated. Its answer was too large to be kept, or is not known here."
            }
            Self::AttemptLost => {
                "It was carried out, and took so long that its key was given to another attempt, or was decided by an \
                 operator. That answer counts: the same request with the same key gets it."
            }
            Self::RecordLost => {
                "It was carried out; its record is lost; sending it again carries it out again."
            }
            Self::CutOff => {
                "The server is ending, and whether the request had its effect is not known. Send the same request \
                 again later, with the same key."
            }
            Self::Unavailable => "The request was not processed. Send it again later.",
            Self::Unusable => {
                "The request was not processed. Somebody at the service has to look; sending it again does not help."
            }
        }
    }
}

#[cfg(test)]
impl RefusalKind {
    pub(super) const ALL: [Self; 14] = [
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
        Self::RecordLost,
        Self::CutOff,
        Self::Unavailable,
        Self::Unusable,
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
        for kind in RefusalKind::ALL {
            let expected = matches!(kind, RefusalKind::CutOff | RefusalKind::Unavailable).then_some(1);
            assert_eq!(Refusal::new(kind).retry_after(), expected, "nobody is asked to repeat {kind:?}");
        }
    }

    #[test]
    fn how_long_an_unknown_outcome_is_held_is_told() {
        let held = Refusal::outcome_unknown(Duration::from_millis(3_599_001));
        assert_eq!((held.held_for(), held.retry_after()), (Some(3600), None));
        assert!(held.problem().contains("\"held_for\":3600"), "{}", held.problem());
        assert!(!Refusal::new(RefusalKind::Running).problem().contains("held_for"));
    }
}
