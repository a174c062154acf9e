//! The fields that tell clients how their limits stand.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use lockkeeper::{LimitState, Verdict};

use super::policy::Policy;
use super::refusal::Refusal;
use super::rule::Rule;
use crate::problem::whole_seconds;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_FIELDS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];
const OLDER_FIELDS: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// Which fields answers carry. `Retry-After` is no part of this: every refusal that passes by itself has it.
///
/// The default is those of the IETF draft (draft-ietf-httpapi-ratelimit-headers, as of its revision 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitHeaders {
    draft: bool,
    x: bool,
    older: bool,
}

impl Default for RateLimitHeaders {
    fn default() -> Self {
        Self { draft: true, x: false, older: false }
    }
}

impl RateLimitHeaders {
    /// None at all.
    pub fn none() -> Self {
        Self { draft: false, x: false, older: false }
    }

    /// Also `X-RateLimit-Limit`, `-Remaining` and `-Reset` (seconds from now, no time of day), of the one limit that
    /// refused, or else of the one with the least remaining.
    #[must_use]
    pub fn and_x(self) -> Self {
        Self { x: true, ..self }
    }

    /// Also `RateLimit-Limit`, `-Remaining` and `-Reset`, as earlier revisions of the draft had them; otherwise as
    /// [`and_x`](Self::and_x).
    #[must_use]
    pub fn and_older_draft(self) -> Self {
        Self { older: true, ..self }
    }
}

/// What is added to one answer.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Lists: another layer may have said something, too.
    lists: Vec<(HeaderName, HeaderValue)>,
    /// Where nothing is there yet.
    values: Vec<(HeaderName, HeaderValue)>,
}

/// One limit of an answer, ready to be shown.
struct Shown<'a> {
    policy: &'a Policy,
    remaining: u64,
    until: u64,
}

impl Fields {
    /// Of the rules that were asked, and what those answered that are to be shown.
    pub(super) fn new<'a>(
        which: RateLimitHeaders,
        asked: impl Iterator<Item = &'a Rule>,
        answers: impl Iterator<Item = (&'a Rule, &'a Verdict)>,
        refusal: Option<&Refusal>,
        jitter: Duration,
    ) -> Self {
        let mut fields = Self::default();
        if which != RateLimitHeaders::none() {
            let shown: Vec<Shown<'a>> =
                answers.flat_map(|(rule, verdict)| shown(rule, verdict, jitter)).collect();
            if which.draft {
                fields.add_draft(asked, &shown);
            }
            let nearest = nearest(&shown, refusal);
            for (is_wanted, names) in [(which.x, X_FIELDS), (which.older, OLDER_FIELDS)] {
                if let (true, Some(nearest)) = (is_wanted, nearest) {
                    let values = [nearest.policy.capacity(), nearest.remaining, nearest.until];
                    fields.values.extend(names.into_iter().zip(values.map(HeaderValue::from)));
                }
            }
        }
        let wait = refusal.and_then(Refusal::retry_after);
        fields.values.extend(wait.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
        fields
    }

    fn add_draft<'a>(&mut self, asked: impl Iterator<Item = &'a Rule>, shown: &[Shown<'_>]) {
        let (mut policies, mut states) = (String::new(), String::new());
        asked.flat_map(|rule| &rule.policies).for_each(|policy| policy.write(&mut policies));
        shown.iter().for_each(|one| one.policy.write_state(&mut states, one.remaining, one.until));
        for (name, value) in [(RATELIMIT_POLICY, policies), (RATELIMIT, states)] {
            // An empty list is no field. Names are printable ASCII.
            if !value.is_empty()
                && let Ok(value) = HeaderValue::try_from(value)
            {
                self.lists.push((name, value));
            }
        }
    }

    pub(super) fn apply(self, headers: &mut HeaderMap) {
        for (name, value) in self.lists {
            headers.append(name, value);
        }
        for (name, value) in self.values {
            headers.entry(name).or_insert(value);
        }
    }
}

/// A verdict's limits. None of a degraded one: its numbers are not the limit's.
fn shown<'a>(rule: &'a Rule, verdict: &'a Verdict, jitter: Duration) -> Vec<Shown<'a>> {
    if verdict.is_degraded() {
        return Vec::new();
    }
    let count = verdict.detail().states().count();
    let one = |(at, state): (usize, LimitState<'a>)| {
        let policy = Policy::of(&rule.policies, count, at, &state)?;
        Some(Shown { policy, remaining: state.remaining, until: until(&state, jitter) })
    };
    verdict.detail().states().enumerate().filter_map(one).collect()
}

/// When the refused request would pass this limit; where it would now, or never, when everything is there again.
fn until(state: &LimitState<'_>, jitter: Duration) -> u64 {
    match state.retry_after.filter(|wait| !wait.is_zero()).unwrap_or(state.reset) {
        Duration::ZERO => 0,
        wait => whole_seconds(wait.saturating_add(jitter)),
    }
}

fn nearest<'a, 'b>(shown: &'b [Shown<'a>], refusal: Option<&Refusal>) -> Option<&'b Shown<'a>> {
    let refusing = refusal.and_then(Refusal::policy);
    let by = shown.iter().find(|one| Some(&*one.policy.name) == refusing);
    by.or_else(|| shown.iter().min_by_key(|one| (one.remaining, u64::MAX - one.until)))
}
