//! What was set.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body::Body;
use lockkeeper::{Error, ErrorKind, Once};

use super::body::IdempotencyBody;
use super::detached::Detached;
use super::fingerprint::Compared;
use super::outcome::{FindOutcome, Outcome};
use super::refusal::{Refusal, RefusalKind};
use super::replayed::Replayed;
use crate::caller::Who;
use crate::problem;
use crate::seldom::Seldom;

pub(super) type Respond = dyn Fn(&Refusal) -> Response<Bytes> + Send + Sync;
pub(super) type FindTarget = dyn Fn(&Parts) -> String + Send + Sync;
pub(super) type IsAsked = dyn Fn(&Parts) -> bool + Send + Sync;

pub(super) struct Settings {
    pub(super) once: Once,
    pub(super) caller: Who,
    pub(super) unknown_caller: StatusCode,
    pub(super) methods: Vec<Method>,
    pub(super) is_required: Arc<IsAsked>,
    pub(super) max_request: usize,
    pub(super) max_answer: usize,
    pub(super) keep_within: Duration,
    pub(super) target: Arc<FindTarget>,
    pub(super) compared: Compared,
    pub(super) replayed: Replayed,
    pub(super) outcome: Arc<FindOutcome>,
    pub(super) is_fail_open: bool,
    pub(super) respond: Arc<Respond>,
    pub(super) notices: Notices,
    pub(super) detached: Detached,
}

#[derive(Debug, Default)]
pub(super) struct Notices {
    pub(super) unprotected: Seldom,
    away: Seldom,
    unrecorded: Seldom,
    unknown_caller: Seldom,
}

impl Settings {
    pub(super) fn refused<R: Body>(&self, refusal: &Refusal) -> Response<IdempotencyBody<R>> {
        let mut response = (self.respond)(refusal).map(|body| IdempotencyBody::whole(body, None));
        if let Some(outcome) = refusal.kind().outcome()
            && response.extensions().get::<Outcome>().is_none()
        {
            response.extensions_mut().insert(outcome);
        }
        if let Some(seconds) = refusal.retry_after() {
            response.headers_mut().entry(header::RETRY_AFTER).or_insert(HeaderValue::from(seconds));
        }
        response
    }

    /// The store did not say whether the request was run before. `None`: it is run without protection.
    pub(super) fn without_store(&self, error: &Error) -> Option<Refusal> {
        let (once, kind, detail) = (self.once.name(), error.kind(), error.detail());
        // A record that cannot be read may say that it was run. A mistake of ours does not go away by itself.
        let is_for_good =
            matches!(kind, ErrorKind::WrongType | ErrorKind::BadArgument | ErrorKind::Unsupported);
        if self.is_fail_open && !is_for_good {
            if let Some(requests) = self.notices.unprotected.worth_saying() {
                tracing::warn!(once, ?kind, detail, requests, "idempotency_unprotected");
            }
            return None;
        }
        if let Some(requests) = self.notices.away.worth_saying() {
            tracing::warn!(once, ?kind, detail, requests, "idempotency_not_decided");
        }
        let kind = if is_for_good { RefusalKind::Unusable } else { RefusalKind::Unavailable };
        Some(Refusal::new(kind))
    }

    pub(super) fn note_unrecorded(&self, error: &Error) {
        if let Some(requests) = self.notices.unrecorded.worth_saying() {
            let (once, kind, detail) = (self.once.name(), error.kind(), error.detail());
            tracing::warn!(once, ?kind, detail, requests, "idempotency_unrecorded");
        }
    }

    pub(super) fn note_unknown_caller(&self, reason: &impl fmt::Display) {
        if let Some(requests) = self.notices.unknown_caller.worth_saying() {
            tracing::warn!(once = self.once.name(), %reason, requests, "idempotency_caller_unknown");
        }
    }
}

/// A wrong setting, or a wrong argument.
pub(super) fn refuse(detail: impl Into<String>) -> Error {
    Error::bad_argument("idempotency layer", detail)
}

pub(super) fn problem_details(refusal: &Refusal) -> Response<Bytes> {
    problem::response(refusal.status(), Bytes::from(refusal.problem()))
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("once", &self.once.name())
            .field("methods", &self.methods)
            .field("max_request", &self.max_request)
            .field("max_answer", &self.max_answer)
            .field("keep_within", &self.keep_within)
            .field("is_fail_open", &self.is_fail_open)
            .finish_non_exhaustive()
    }
}
