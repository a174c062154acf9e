//! The limiter: limits of a kind of thing, asked for one subject at a time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::limit::{Ask, IntoLimits, IntoSubject, Limit, Subject};
use lockkeeper_core::{Error, ErrorKind, Key, Keys, Uptime};

use super::away::WhenAway;
use super::checker::{Checker, Terms};
use super::plan::Plan;
use super::verdict::{Source, Verdict};
use crate::keeper::{Inner, Keeper};
use crate::telemetry::LimitClass;

/// How long a decision may take, waiting for a connection included, before the [policy](WhenAway) decides.
pub const DEFAULT_DECIDE_WITHIN: Duration = Duration::from_millis(100);
/// What errors name, where nobody looks or gives back.
pub(super) const CHECK: &str = "check";
const MIN_DECIDE_WITHIN: Duration = Duration::from_millis(2);

/// Limits under a name, such as `login`. Made by [`Keeper::limiter`]; cheap to clone.
///
/// Make it once and keep it: clones share what makes it fast (checks that go together, remembered refusals).
#[derive(Clone)]
pub struct Limiter {
    pub(super) checker: Arc<Checker>,
}

impl Keeper {
    /// A limiter named `name` (1 to 64 of a-z, 0-9 and `_`; also its label in telemetry) with one limit, or several
    /// that are checked as one: all or nothing, in one step.
    ///
    /// ```
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// use std::time::Duration;
    /// use lockkeeper::{Keeper, Limit, Verdict};
    ///
    /// let keeper = Keeper::connect("memory://").await?; // or redis://127.0.0.1:6379
    /// let logins = keeper.limiter("login", Limit::token_bucket(100).refill(20, Duration::from_secs(1)))?;
    /// match logins.check("user:42").await? {
    ///     Verdict::Allowed { remaining, .. } => println!("{remaining} left"),
    ///     Verdict::Denied { retry_after, .. } => println!("come back in {retry_after:?}"),
    ///     Verdict::Never { .. } => println!("costs more than the bucket can ever hold"),
    ///     _ => {}
    /// }
    /// let per_user = keeper.limiter("search", "10/s; 1000/h sliding-counter")?;
    /// assert!(per_user.check("user:42").await?.is_allowed());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// A limit's numbers are part of its key on the server: a limiter with other numbers counts afresh from its next call.
    ///
    /// # Errors
    /// The name, or one of the limits, is not valid; the same limit twice; the store is one of
    /// [your own](crate::KeeperBuilder::store) or a majority, which has locks only.
    pub fn limiter(&self, name: &str, limits: impl IntoLimits) -> Result<Limiter, Error> {
        let limits = limits.into_limits().map_err(|error| error.with_key(name))?;
        let class = LimitClass::named(name)?;
        self.inner.backend.check_more_than_locks("limiter")?;
        let plan = Plan::new(&self.inner.limit_prefix, &Arc::from(name), &limits)?;
        Ok(Limiter::new(self.inner.clone(), Arc::new(plan), class))
    }
}

impl Limiter {
    fn new(inner: Arc<Inner>, plan: Arc<Plan>, class: LimitClass) -> Self {
        let terms = Terms {
            away: WhenAway::Refuse,
            decide_within: DEFAULT_DECIDE_WITHIN,
            remembers: true,
            is_exact: false,
        };
        Self { checker: Arc::new(Checker::new(inner, plan, class, terms)) }
    }

    fn with(&self, change: impl FnOnce(&mut Terms)) -> Self {
        let checker = &self.checker;
        let mut terms = checker.terms;
        change(&mut terms);
        let checker = Checker::new(checker.inner.clone(), checker.plan.clone(), checker.class, terms);
        Self { checker: Arc::new(checker) }
    }

    /// What to do when the store is away; to [refuse](WhenAway::Refuse) unless said otherwise.
    #[must_use]
    pub fn when_away(self, policy: WhenAway) -> Self {
        self.with(|terms| terms.away = policy)
    }

    /// The longest time for one decision; [`DEFAULT_DECIDE_WITHIN`] unless said otherwise, at least 2 ms. One call to the
    /// store gets half of it, because a check may have to wait for one that is under way.
    #[must_use]
    pub fn decide_within(self, limit: Duration) -> Self {
        self.with(|terms| terms.decide_within = limit.max(MIN_DECIDE_WITHIN))
    }

    /// Asks the store every time: no refusal is remembered, and no lease is given.
    #[must_use]
    pub fn exact(self) -> Self {
        self.with(|terms| {
            terms.remembers = false;
            terms.is_exact = true;
        })
    }

    /// Remembers no refusal, so that what another process gives back is seen at once.
    #[must_use]
    pub fn without_memory_of_denials(self) -> Self {
        self.with(|terms| terms.remembers = false)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.checker.class.name()
    }

    /// Its limits that count something, in the order given.
    pub fn limits(&self) -> impl Iterator<Item = Limit> {
        self.checker.plan.parts.iter().map(|part| part.limit)
    }

    /// The subject's keys on the server, one for each of [`limits`](Self::limits): for people, and for looking at them by
    /// other means. What they hold may change with the version of this crate.
    ///
    /// # Errors
    /// The subject is not valid.
    pub fn keys(&self, subject: impl IntoSubject) -> Result<Vec<Key>, Error> {
        let plan = &self.checker.plan;
        if plan.parts.is_empty() {
            return Ok(vec![]);
        }
        Ok(plan.keys(&[subject.into_subject()?])?.as_slice().to_vec())
    }

    /// Takes one.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip; checks of the same subject that come while one is under way share the next. Inside:
    /// `TIME`, and per limit a `GET`, a `PTTL` and, if granted, a `SET` (a sliding log: `ZREMRANGEBYSCORE`, `ZCARD`,
    /// `ZRANGE`, `ZADD`). None where a refusal is remembered (at most a second), or the circuit is open.
    ///
    /// # Errors
    /// The subject is not valid. Whatever the [policy](WhenAway) does not handle: with the default, a store that is away.
    ///
    /// # Cancel safety
    /// Not sent yet: nothing is taken. Sent: it is charged.
    pub async fn check(&self, subject: impl IntoSubject) -> Result<Verdict, Error> {
        self.check_cost(subject, 1).await
    }

    /// Takes `cost`, or nothing.
    ///
    /// # Redis
    /// As [`check`](Self::check).
    ///
    /// # Errors
    /// Cost zero; else as [`check`](Self::check). A cost above the capacity is no error but [`Verdict::Never`].
    ///
    /// # Cancel safety
    /// As [`check`](Self::check).
    pub async fn check_cost(&self, subject: impl IntoSubject, cost: u64) -> Result<Verdict, Error> {
        self.ask(subject, Ask::whole(cost)).await
    }

    /// Takes as much as there is, at most `most`: the verdict says how much was granted, and exactly that is charged.
    /// Denied where there is nothing.
    ///
    /// # Redis
    /// As [`check`](Self::check).
    ///
    /// # Errors
    /// `most` zero; else as [`check`](Self::check).
    ///
    /// # Cancel safety
    /// As [`check`](Self::check).
    pub async fn check_up_to(&self, subject: impl IntoSubject, most: u64) -> Result<Verdict, Error> {
        self.ask(subject, Ask::up_to(most)).await
    }

    pub(super) fn now(&self) -> Uptime {
        self.checker.inner.clock.uptime()
    }

    async fn ask(&self, subject: impl IntoSubject, ask: Ask) -> Result<Verdict, Error> {
        let subject = subject.into_subject()?;
        if let Some(verdict) = self.checker.at_once(&subject, ask) {
            return Ok(verdict);
        }
        match self.prepared(CHECK, subject, ask)? {
            Ok(keys) => self.checker.check(&keys, ask).await,
            Err(verdict) => Ok(self.checker.constant(verdict)),
        }
    }

    /// The keys, or the verdict where nobody has to be asked.
    pub(super) fn prepared(
        &self,
        operation: &'static str,
        subject: impl IntoSubject,
        ask: Ask,
    ) -> Result<Result<Keys, Verdict>, Error> {
        let subject = subject.into_subject()?;
        self.checker.prepared(operation, &[subject], ask)
    }

    /// Waits until `cost` is granted, for `limit` at most, in the order in which callers of this process came for the
    /// subject. Answers *denied* as soon as it is clear that the limit will not do, *never* at once.
    ///
    /// # Redis
    /// As [`check`](Self::check), once per refusal; only the front of the line asks, and who reaches `limit` before it is the
    /// front asks once, out of turn.
    ///
    /// # Errors
    /// As [`check_cost`](Self::check_cost).
    ///
    /// # Cancel safety
    /// Leaves the line. A check that was sent is charged.
    pub async fn until_ready(
        &self,
        subject: impl IntoSubject,
        cost: u64,
        limit: Duration,
    ) -> Result<Verdict, Error> {
        let ask = Ask::whole(cost);
        let keys = match self.prepared(CHECK, subject, ask)? {
            Ok(keys) => keys,
            Err(verdict) => return Ok(self.checker.constant(verdict)),
        };
        let checker = &self.checker;
        checker.lines.wait(&keys, limit, &*checker.inner.clock, || checker.check(&keys, ask)).await
    }

    /// What a check of `cost` would be answered. Takes nothing, and asks the store every time.
    ///
    /// # Redis
    /// One `EVALSHA_RO` (`EVALSHA` before Redis 7.0), one round trip.
    ///
    /// # Errors
    /// Cost zero; the subject is not valid; the store is away, whatever the policy.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn peek(&self, subject: impl IntoSubject, cost: u64) -> Result<Verdict, Error> {
        let ask = Ask::whole(cost);
        match self.prepared("peek", subject, ask)? {
            Ok(keys) => self.checker.peek(&keys, ask).await,
            Err(verdict) => Ok(verdict),
        }
    }

    /// Gives `cost` back, as far as that much was used: for work that did not happen. No window moves. Within a given
    /// interval, the algorithm's bound may then be exceeded by as much as is given back in it.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip.
    ///
    /// # Errors
    /// Cost zero; the subject is not valid; the store is away. With *outcome unknown* it may have been given back: do
    /// not repeat it.
    ///
    /// # Cancel safety
    /// It may have been given back.
    pub async fn refund(&self, subject: impl IntoSubject, cost: u64) -> Result<(), Error> {
        match self.prepared("refund", subject, Ask::whole(cost))? {
            Ok(keys) => self.checker.refund(&keys, cost).await.map(drop),
            Err(_constant) => Ok(()),
        }
    }

    /// Forgets everything that the subject took. True: there was something.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip.
    ///
    /// # Errors
    /// The subject is not valid; the store is away.
    ///
    /// # Cancel safety
    /// It may have been forgotten.
    pub async fn reset(&self, subject: impl IntoSubject) -> Result<bool, Error> {
        match self.prepared("reset", subject, Ask::whole(1))? {
            Ok(keys) => Ok(self.checker.reset(&keys).await? > 0),
            Err(_constant) => Ok(false),
        }
    }
}

impl Checker {
    /// The keys of `subjects`, or the verdict where nobody has to be asked.
    pub(super) fn prepared(
        &self,
        operation: &'static str,
        subjects: &[Subject],
        ask: Ask,
    ) -> Result<Result<Keys, Verdict>, Error> {
        if ask.cost == 0 {
            let detail = "the cost is 0; at least 1 (to look without taking, use `peek`)";
            return Err(Error::bad_argument(operation, detail).with_key(self.class.name()));
        }
        if self.inner.is_closed() {
            return Err(Error::new(ErrorKind::Closed, operation, "").with_key(self.class.name()));
        }
        if self.plan.passes_nothing {
            let never = lockkeeper_core::limit::Checked {
                outcome: lockkeeper_core::limit::Outcome::Never { by: 0 },
                standings: Default::default(),
            };
            return Ok(Err(Verdict::new(&self.plan, never, Source::Constant)));
        }
        if self.plan.quotas.is_empty() {
            return Ok(Err(Verdict::new(&self.plan, self.all_allowed(ask), Source::Constant)));
        }
        self.plan.keys(subjects).map(Ok)
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<String> = self.limits().map(|limit| limit.to_string()).collect();
        f.debug_struct("Limiter").field("name", &self.name()).field("limits", &limits).finish_non_exhaustive()
    }
}
