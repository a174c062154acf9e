//! One rule: what is limited, for whom, at what cost.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use lockkeeper::{Error, Joint, Limiter, Subject, Verdict};

use super::policy::{Policy, refuse};
use super::route::Route;
use crate::caller::{Unknown, Who};
use crate::seldom::Seldom;

/// A limiter and whom it counts; or several limiters as one.
///
/// ```
/// # async fn example() -> Result<(), lockkeeper::Error> {
/// use http::HeaderName;
/// use lockkeeper::Keeper;
/// use lockkeeper_tower::ClientAddress;
/// use lockkeeper_tower::rate_limit::{Rule, Who};
///
/// let keeper = Keeper::connect("memory://").await?;
/// let key = HeaderName::from_static("x-api-key");
/// // Uploads cost what they weigh, in MiB begun; a request without a body costs nothing.
/// let uploads = Rule::new(keeper.limiter("upload", "100/min")?, Who::secret_header("api_key", key)?)
///     .cost(|request| {
///         let length = request.headers.get("content-length").and_then(|value| value.to_str().ok()?.parse().ok());
///         length.map_or(1, |bytes: u64| bytes.div_ceil(1 << 20))
///     })
///     .skip(|request| request.method == http::Method::OPTIONS);
/// # let _ = uploads;
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Rule {
    asked: Asked,
    who: Vec<Who>,
    cost: Option<Arc<Cost>>,
    skip: Option<Arc<Skip>>,
    names: Option<Vec<String>>,
    is_shadow: bool,
    /// Found out when the layer is made.
    pub(super) policies: Vec<Policy>,
    notices: Arc<Notices>,
}

#[derive(Clone)]
enum Asked {
    One(Limiter),
    Several(Joint),
}

type Cost = dyn Fn(&Parts) -> u64 + Send + Sync;
pub(super) type Skip = dyn Fn(&Parts) -> bool + Send + Sync;

/// How often something went wrong, so that the log is not flooded.
#[derive(Debug, Default)]
struct Notices {
    unknown: Seldom,
    failed: Seldom,
}

/// What a rule is to be asked for one request.
pub(super) struct Question {
    /// Which rule.
    pub(super) rule: usize,
    pub(super) subjects: Vec<Subject>,
    pub(super) cost: u64,
}

impl Rule {
    /// What `limiter` says of `who`.
    pub fn new(limiter: Limiter, who: Who) -> Self {
        Self::of(Asked::One(limiter), vec![who])
    }

    /// What `joint` says, one `who` for each of its limiters: passes all of them or is charged by none.
    pub fn joint(joint: Joint, who: impl IntoIterator<Item = Who>) -> Self {
        Self::of(Asked::Several(joint), who.into_iter().collect())
    }

    fn of(asked: Asked, who: Vec<Who>) -> Self {
        Self {
            asked,
            who,
            cost: None,
            skip: None,
            names: None,
            is_shadow: false,
            policies: Vec::new(),
            notices: Arc::default(),
        }
    }

    /// What a request costs, instead of 1. A request that costs 0 is free: this rule is not asked.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        Self { cost: Some(Arc::new(cost)), ..self }
    }

    /// Requests for which this is true are not asked for by this rule.
    #[must_use]
    pub fn skip(self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self { skip: Some(Arc::new(skip)), ..self }
    }

    /// What its limits (those that count something) are called in answers, in their order, instead of the limiter's name (with several limits
    /// `name-1`, `name-2`). 1 to [`MAX_POLICY_NAME`](super::MAX_POLICY_NAME) characters of printable ASCII each.
    #[must_use]
    pub fn named<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        Self { names: Some(names.into_iter().map(Into::into).collect()), ..self }
    }

    /// Counts, but refuses nobody. To see what a new limit would do before it does it: what it would refuse is counted in
    /// the limiter's metrics as a refusal, logged at debug level, and in [`RateLimited`](super::RateLimited). Clients see
    /// nothing of it.
    #[must_use]
    pub fn shadow(self) -> Self {
        Self { is_shadow: true, ..self }
    }

    /// Finds its policies.
    pub(super) fn prepared(mut self) -> Result<Self, Error> {
        let limiters = self.limiters();
        if limiters.len() != self.who.len() {
            let detail =
                format!("a joint rule with {} limiters counts {} subjects", limiters.len(), self.who.len());
            return Err(refuse(detail));
        }
        self.policies = Policy::all(limiters, self.names.as_deref())?;
        Ok(self)
    }

    fn limiters(&self) -> &[Limiter] {
        match &self.asked {
            Asked::One(limiter) => std::slice::from_ref(limiter),
            Asked::Several(joint) => joint.limiters(),
        }
    }

    /// The name of its first limiter.
    pub(super) fn name(&self) -> &str {
        self.limiters().first().map_or("", Limiter::name)
    }

    pub(super) fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// What to ask, if it is to be asked.
    pub(super) fn question(&self, at: usize, parts: &Parts, route: &Route) -> Option<Question> {
        if self.skip.as_ref().is_some_and(|skip| skip(parts)) {
            return None;
        }
        let cost = self.cost.as_ref().map_or(1, |cost| cost(parts));
        (cost > 0).then(|| Question { rule: at, subjects: self.subjects(parts, route), cost })
    }

    /// None where there is an error: a check then fails too.
    fn subjects(&self, parts: &Parts, route: &Route) -> Vec<Subject> {
        let subject = |who: &Who| {
            let found = who.find(parts);
            let subject = found.or_else(|unknown| {
                self.note_unknown(&unknown);
                Subject::of("unknown", "subject")
            })?;
            if who.is_over_all_routes() { Ok(subject) } else { subject.and("route", route.as_str()) }
        };
        let subjects: Result<_, Error> = self.who.iter().map(subject).collect();
        subjects.unwrap_or_else(|error| {
            self.note_failure(&error);
            Vec::new()
        })
    }

    pub(super) async fn check(&self, question: &Question) -> Result<Verdict, Error> {
        match (&self.asked, &question.subjects[..]) {
            (Asked::One(limiter), [subject]) => limiter.check_cost(subject, question.cost).await,
            (Asked::One(_), _) => Err(refuse("a limiter counts one subject")),
            (Asked::Several(joint), subjects) => joint.check(subjects, question.cost).await,
        }
    }

    /// As far as it goes: what cannot be given back stays charged.
    pub(super) async fn give_back(&self, question: &Question) {
        for (limiter, subject) in self.limiters().iter().zip(&question.subjects) {
            if let Err(error) = limiter.refund(subject, question.cost).await {
                let (kind, detail) = (error.kind(), error.detail());
                tracing::debug!(limiter = limiter.name(), ?kind, detail, "rate_limit_refund_failed");
            }
        }
    }

    fn note_unknown(&self, reason: &Unknown) {
        if let Some(requests) = self.notices.unknown.worth_saying() {
            tracing::warn!(
                limiter = self.name(),
                %reason,
                requests,
                "rate_limit_subject_unknown: such requests have one count together"
            );
        }
    }

    pub(super) fn note_failure(&self, error: &Error) {
        if let Some(requests) = self.notices.failed.worth_saying() {
            // Not the whole error: its key says who was counted.
            let (kind, detail) = (error.kind(), error.detail());
            let passes = self.is_shadow;
            tracing::warn!(limiter = self.name(), ?kind, detail, requests, passes, "rate_limit_not_decided");
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("limiters", &self.limiters())
            .field("who", &self.who)
            .field("is_shadow", &self.is_shadow)
            .finish_non_exhaustive()
    }
}
