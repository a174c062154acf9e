//! One call: its attempts, and what lies between them.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, StatusCode};
use tokio::time::{Instant, sleep_until, timeout_at};
use tower_service::Service;

use super::error::{BoxError, Shed, ShedReason};
use super::held_back::Waiting;
use super::hint::{Hint, Source, hint};
use super::layer::Shared;
use super::message::{Answered, CloneRequest, Retryable};
use super::origins::{Departure, Hold, Place, Sent};
use super::statistics::count;

pub(crate) struct Call {
    shared: Arc<Shared>,
    place: Arc<Place>,
    method: Method,
    /// No attempt starts later.
    deadline: Instant,
}

/// What an attempt came to, as far as retries are concerned.
#[derive(Clone, Copy)]
enum Verdict {
    Accepted,
    Refused(StatusCode, Option<Hint>),
    Failed,
    /// Failed, and will again; nothing is known of the server.
    Final,
}

impl Call {
    pub(crate) fn new<R: Retryable>(shared: Arc<Shared>, request: &R) -> Self {
        let now = Instant::now();
        let place = shared.origins.place(request.origin(), now);
        let deadline = now + shared.policy.max_elapsed;
        Self { place, method: request.method().clone(), deadline, shared }
    }

    pub(crate) async fn run<S, C, R>(self, inner: S, cloner: C, request: R) -> Result<S::Response, BoxError>
    where
        S: Service<R> + Clone,
        S::Response: Answered,
        S::Error: Into<BoxError>,
        R: Retryable,
        C: CloneRequest<R>,
    {
        let (mut inner, mut request, mut retries) = (inner, request, 0);
        loop {
            let last = retries + 1 >= self.shared.policy.max_attempts;
            let spare = if last { None } else { cloner.clone_request(&request) };
            let (mut client, sent) = self.depart::<S, R>(&mut inner, retries).await?;
            let outcome = client.call(request).await.map_err(Into::into);
            let verdict = self.judge(&outcome, sent);
            let repeat = spare.and_then(|copy| Some((copy, self.wait_before_retry(verdict, retries)?)));
            let Some((copy, wait)) = repeat else { return outcome };
            // The refusal may still hold its connection, which others can use meanwhile.
            drop((outcome, client));
            sleep_until(Instant::now() + wait).await;
            (request, retries) = (copy, retries + 1);
        }
    }

    /// Waits until the client below is ready *and* the origin holds nobody back, both at the same time.
    ///
    /// It takes the client by `&mut` because that need not be `Sync`.
    async fn depart<S, R>(&self, inner: &mut S, retries: u32) -> Result<(S, Sent), BoxError>
    where
        S: Service<R> + Clone,
        S::Error: Into<BoxError>,
    {
        loop {
            while let Some(hold) = self.place.hold_at(Instant::now()) {
                self.wait_for(hold).await?;
            }
            let mut client = inner.clone();
            let ready = poll_fn(|context| client.poll_ready(context));
            let ready = timeout_at(self.deadline, ready).await;
            ready.map_err(|_| self.shed(ShedReason::NotReady, None))?.map_err(Into::into)?;
            // The lot of a retry was drawn before it waited.
            let lot = (retries == 0).then(|| self.shared.lot());
            match self.place.depart(Instant::now(), lot) {
                Departure::Sent(sent) => {
                    self.count_sent(retries);
                    return Ok((client, sent));
                }
                Departure::HeldBack => {}
                Departure::Shed => return Err(self.shed(ShedReason::Overload, None).into()),
            }
        }
    }

    fn count_sent(&self, retries: u32) {
        let counters = self.shared.statistics.counters();
        count(&counters.attempts);
        if retries == 0 {
            self.shared.budget.deposit();
        } else {
            count(&counters.retries);
        }
    }

    async fn wait_for(&self, hold: Hold) -> Result<(), Shed> {
        let (policy, now) = (&self.shared.policy, Instant::now());
        let left = hold.until.duration_since(now);
        // Less room than a tenth of the wait would bring everybody back together.
        let room = self.deadline.duration_since(hold.until);
        if left > policy.max_wait || room < left / 10 {
            return Err(self.shed(ShedReason::HeldBack, Some(left)));
        }
        let Some(_waiting) = Waiting::join(&self.shared.held_back, policy.max_held_back) else {
            return Err(self.shed(ShedReason::TooManyHeldBack, Some(left)));
        };
        count(&self.shared.statistics.counters().held_back);
        // Only those who came within the last `max_wait` are here to be spread.
        let told = hold.told.min(policy.max_wait);
        let spread = self.shared.draw(|rng| policy.waits.after_hold(told, room, rng));
        sleep_until(hold.until + spread).await;
        Ok(())
    }

    fn shed(&self, reason: ShedReason, retry_after: Option<Duration>) -> Shed {
        count(&self.shared.statistics.counters().shed);
        Shed { reason, retry_after }
    }

    /// Takes note of what the answer says about the origin.
    fn judge<T: Answered>(&self, outcome: &Result<T, BoxError>, sent: Sent) -> Verdict {
        let policy = &self.shared.policy;
        let verdict = match outcome {
            Ok(answer) if policy.statuses.contains(&answer.status()) => {
                Verdict::Refused(answer.status(), hint(answer.headers(), SystemTime::now()))
            }
            Ok(_) => Verdict::Accepted,
            Err(error) if (policy.may_pass)(&**error) => Verdict::Failed,
            Err(_) => return Verdict::Final,
        };
        sent.judge(matches!(verdict, Verdict::Accepted));
        if let Verdict::Refused(_, Some(hint)) = verdict
            && policy.hold_back
        {
            self.place.hold(hint.wait.min(policy.max_hold), Instant::now());
        }
        verdict
    }

    /// `None` when the outcome is passed on. Otherwise the retry is paid for.
    fn wait_before_retry(&self, verdict: Verdict, retries: u32) -> Option<Duration> {
        if !self.may_repeat(verdict) {
            return None;
        }
        let (shared, now) = (&self.shared, Instant::now());
        let wait = match verdict {
            Verdict::Refused(_, Some(hint)) if hint.wait > shared.policy.max_wait => return None,
            Verdict::Refused(_, Some(hint)) => {
                shared.draw(|rng| shared.policy.waits.after_hint(hint.wait, rng))
            }
            _ => shared.draw(|rng| shared.policy.waits.without_hint(retries, rng)),
        };
        if now + wait > self.deadline {
            return None;
        }
        let counters = shared.statistics.counters();
        if self.place.sheds(now, shared.lot()) {
            count(&counters.shed);
            return None;
        }
        if !shared.budget.withdraw(now) {
            count(&counters.budget_exhausted);
            return None;
        }
        Some(wait)
    }

    /// Sending the request again does nothing twice.
    fn may_repeat(&self, verdict: Verdict) -> bool {
        let refused_before_acting = match verdict {
            Verdict::Accepted | Verdict::Final => return false,
            Verdict::Refused(StatusCode::TOO_MANY_REQUESTS, _) => true,
            Verdict::Refused(StatusCode::SERVICE_UNAVAILABLE, hint) => {
                hint.is_some_and(|hint| hint.source == Source::RetryAfter)
            }
            Verdict::Refused(..) | Verdict::Failed => false,
        };
        refused_before_acting || self.shared.policy.idempotent.contains(&self.method)
    }
}
