//! Why a request is refused, and how that is answered.

use std::time::Duration;

use http::{Response, StatusCode};
use lockkeeper::{Limit, Verdict};

use super::policy::Policy;
use super::problem;
use super::rule::Rule;
use crate::problem::{self as details, whole_seconds};

/// When to come back where the store could not say so.
const UNAVAILABLE_RETRY: Duration = Duration::from_secs(1);

/// Why a request is refused. Says nothing of who was counted.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub(super) kind: RefusalKind,
    limiter: String,
    policy: Option<Policy>,
    violated: Vec<String>,
    retry_after: Option<Duration>,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Not now: 429.
    Denied,
    /// Never, however long the client waits: 403, without `Retry-After`. The request costs more than the limit can ever
    /// hold, or the limit is `none`. Not 429, after which clients come back by themselves.
    Never,
    /// The store is away and this process's share is used up: 503. What the whole limit would have said is not known.
    ReducedCapacity,
    /// The limits could not be checked, and the limiter refuses then: 503, never 429.
    Unavailable,
}

impl Refusal {
    /// What `rule` said with a verdict that is no allowance.
    pub(super) fn of(rule: &Rule, verdict: &Verdict) -> Self {
        let (kind, by) = match verdict {
            Verdict::Never { by, .. } => (RefusalKind::Never, *by),
            Verdict::Denied { by, .. } if verdict.is_degraded() => (RefusalKind::ReducedCapacity, *by),
            Verdict::Denied { by, .. } => (RefusalKind::Denied, *by),
            _ => (RefusalKind::Denied, 0),
        };
        let states: Vec<_> = verdict.detail().states().collect();
        let policy = |at: usize| Policy::of(&rule.policies, states.len(), at, states.get(at)?);
        let refuses = |at: &usize| *at == by || states[*at].retry_after != Some(Duration::ZERO);
        let violated = (0..states.len()).filter(refuses).filter_map(policy);
        Self {
            kind,
            limiter: rule.name().to_owned(),
            violated: violated.map(|policy| policy.name.to_string()).collect(),
            policy: policy(by).cloned(),
            retry_after: verdict.retry_after(),
        }
    }

    /// `rule` got no verdict.
    pub(super) fn unavailable(rule: &Rule) -> Self {
        Self {
            kind: RefusalKind::Unavailable,
            limiter: rule.name().to_owned(),
            policy: None,
            violated: Vec::new(),
            retry_after: Some(UNAVAILABLE_RETRY),
        }
    }

    pub(super) fn lengthened(mut self, by: Duration) -> Self {
        self.retry_after = self.retry_after.map(|wait| wait.saturating_add(by));
        self
    }

    /// What kind it is.
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// 429, 403 or 503, see [`RefusalKind`].
    pub fn status(&self) -> StatusCode {
        match self.kind {
            RefusalKind::Denied => StatusCode::TOO_MANY_REQUESTS,
            RefusalKind::Never => StatusCode::FORBIDDEN,
            RefusalKind::ReducedCapacity | RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What `Retry-After` says, in seconds: rounded up, never 0. `None`: never.
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after.map(|wait| whole_seconds(wait).max(1))
    }

    /// The name of the rule's (first) limiter.
    pub fn limiter(&self) -> &str {
        &self.limiter
    }

    /// The name of the policy that refuses for longest.
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_ref().map(|policy| &*policy.name)
    }

    /// The limit that refuses for longest.
    pub fn limit(&self) -> Option<Limit> {
        self.policy.as_ref().map(|policy| policy.limit)
    }

    /// The names of all policies of the rule that refuse.
    pub fn violated_policies(&self) -> &[String] {
        &self.violated
    }

    /// The problem details (RFC 9457) as JSON.
    pub fn problem(&self) -> String {
        problem::text(self)
    }
}

/// How a refusal is answered. `Retry-After` and the fields of [`RateLimitHeaders`](super::RateLimitHeaders) are added to
/// what it gives: lists are added to, other fields stay if it has them.
///
/// Every `Fn(&Refusal) -> Response<R>` is one.
pub trait Respond<R> {
    /// The answer.
    fn respond(&self, refusal: &Refusal) -> Response<R>;
}

/// Answers with problem details as `application/problem+json`, for every body that can be made of a `String`: axum's and
/// reqwest's `Body`, `http_body_util::Full<Bytes>`, `String`, `Vec<u8>`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProblemDetails;

impl<R: From<String>> Respond<R> for ProblemDetails {
    fn respond(&self, refusal: &Refusal) -> Response<R> {
        details::response(refusal.status(), R::from(refusal.problem()))
    }
}

impl<R, F: Fn(&Refusal) -> Response<R>> Respond<R> for F {
    fn respond(&self, refusal: &Refusal) -> Response<R> {
        self(refusal)
    }
}
