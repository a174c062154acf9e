//! Why a request is refused, and how that is answered.

use std::time::Duration;

use http::StatusCode;
use serde::Serialize;

use super::refusal_kind::RefusalKind;
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
