//! Limits of different subjects, checked as one: a user's and an organisation's.

use std::sync::Arc;

use lockkeeper_core::limit::{Ask, IntoSubject, Subject};
use lockkeeper_core::{Error, ErrorKind, Uptime};

use super::checker::Checker;
use super::limiter::{CHECK, Limiter};
use super::plan::Plan;
use super::verdict::{Source, Verdict, Verdicts};
use crate::keeper::Keeper;
use crate::telemetry::LimitClass;
use crate::telemetry::events::limit_refund_failed;

/// Several limiters as one: a call passes all of them or is charged by none. Made by [`Keeper::joint`].
///
/// Each limiter counts under its own key, so what it counts here and by itself is the same.
#[derive(Clone)]
pub struct Joint {
    limiters: Vec<Limiter>,
    way: Way,
}

#[derive(Clone)]
enum Way {
    /// In one step of one server.
    AtOnce(Arc<Checker>),
    /// One after another, giving back what the earlier ones took.
    InSequence(Arc<Plan>),
}

const OPERATION: &str = "joint";

impl Keeper {
    /// `limiters` as one, under `name` (as for [`limiter`](Self::limiter)), each for a subject of its own.
    ///
    /// ```
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::connect("memory://").await?;
    /// let (user, org) = (keeper.limiter("user", "10/s")?, keeper.limiter("org", "100/s")?);
    /// let both = keeper.joint("api", [user, org])?;
    /// assert!(both.check(["user:42", "org:acme"], 1).await?.is_allowed());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// The policy, time limit and memory of denials are those of the first limiter.
    ///
    /// # Errors
    /// No limiter, or more than eight limits together; a limiter of another keeper. On a cluster, where the subjects lie
    /// on different servers: unless the keeper's limit prefix has a hash tag, ask [in
    /// sequence](Self::joint_in_sequence).
    pub fn joint(&self, name: &str, limiters: impl IntoIterator<Item = Limiter>) -> Result<Joint, Error> {
        let limiters = self.checked(limiters)?;
        let plan = Plan::joined(limiters.iter().map(|limiter| &limiter.checker.plan));
        if self.inner.backend.is_cluster() && !plan.is_in_one_slot() {
            let detail = "on a cluster the subjects lie on different servers: give the keeper a limit prefix with \
                          a hash tag, or use `joint_in_sequence`";
            return Err(Error::new(ErrorKind::Unsupported, OPERATION, detail));
        }
        let class = LimitClass::named(name)?;
        let terms = limiters[0].checker.terms;
        let checker = Checker::new(self.inner.clone(), Arc::new(plan), class, terms);
        Ok(Joint { limiters, way: Way::AtOnce(Arc::new(checker)) })
    }

    /// As [`joint`](Self::joint), but one limiter after another, giving back what the earlier ones took when a later one
    /// refuses. Works on a cluster too.
    ///
    /// Bound: over a run, no limit is exceeded; within a given interval, an earlier one may be by what is given back in it,
    /// which was taken a decision's time before. Between taking and giving back, and for good where giving back fails or
    /// comes too late (the quota has come back by itself meanwhile) or the caller goes away, an earlier limit may refuse
    /// others though a later one refused the call: by its cost, per call under way or given up. What an earlier limiter
    /// allowed while the store was away was charged nowhere, and is not given back.
    ///
    /// # Errors
    /// No limiter, or more than eight limits together; a limiter of another keeper.
    pub fn joint_in_sequence(&self, limiters: impl IntoIterator<Item = Limiter>) -> Result<Joint, Error> {
        let limiters = self.checked(limiters)?;
        let plan = Plan::joined(limiters.iter().map(|limiter| &limiter.checker.plan));
        Ok(Joint { limiters, way: Way::InSequence(Arc::new(plan)) })
    }

    fn checked(&self, limiters: impl IntoIterator<Item = Limiter>) -> Result<Vec<Limiter>, Error> {
        let limiters: Vec<Limiter> = limiters.into_iter().collect();
        let refuse = |detail: String| Err(Error::bad_argument(OPERATION, detail));
        let limits = limiters.iter().map(|limiter| limiter.checker.plan.parts.len()).sum::<usize>();
        let is_ours = |limiter: &Limiter| Arc::ptr_eq(&limiter.checker.inner, &self.inner);
        match limiters.iter().find(|limiter| !is_ours(limiter)) {
            _ if limiters.is_empty() => refuse("no limiter is given".to_owned()),
            _ if limits > lockkeeper_core::limit::MAX_LIMITS => {
                refuse(format!("{limits} limits at once; at most {}", lockkeeper_core::limit::MAX_LIMITS))
            }
            Some(limiter) => refuse(format!("the limiter `{}` belongs to another keeper", limiter.name())),
            None => Ok(limiters),
        }
    }
}

impl Joint {
    /// Its limiters, in the order of the subjects.
    pub fn limiters(&self) -> &[Limiter] {
        &self.limiters
    }

    /// Takes `cost` from each limiter for its subject, or nothing. The verdict has each limit's state, in the order of the
    /// limiters; asked in sequence and refused, those up to the one that refused.
    ///
    /// # Redis
    /// As [`Limiter::check`], one round trip; in sequence, one for each limiter and one for each that gives back.
    ///
    /// # Errors
    /// Not as many subjects as limiters; two limits would share a key; else as [`Limiter::check_cost`].
    ///
    /// # Cancel safety
    /// As [`Limiter::check`]. In sequence, what was taken before is not given back.
    pub async fn check<S: IntoSubject>(
        &self,
        subjects: impl IntoIterator<Item = S>,
        cost: u64,
    ) -> Result<Verdict, Error> {
        let subjects: Vec<Subject> =
            subjects.into_iter().map(IntoSubject::into_subject).collect::<Result<_, _>>()?;
        if subjects.len() != self.limiters.len() {
            let detail = format!("{} subjects for {} limiters", subjects.len(), self.limiters.len());
            return Err(Error::bad_argument(OPERATION, detail));
        }
        match &self.way {
            Way::AtOnce(checker) => match checker.prepared(CHECK, &subjects, Ask::whole(cost))? {
                Ok(keys) => checker.check(&keys, Ask::whole(cost)).await,
                Err(verdict) => Ok(checker.constant(verdict)),
            },
            Way::InSequence(plan) => self.in_sequence(plan, &subjects, cost).await,
        }
    }

    async fn in_sequence(&self, plan: &Arc<Plan>, subjects: &[Subject], cost: u64) -> Result<Verdict, Error> {
        let (mut before, mut charges) = (Verdicts::of(plan), Vec::new());
        for (limiter, subject) in self.limiters.iter().zip(subjects) {
            let sent = limiter.now();
            let verdict = limiter.check_cost(subject, cost).await;
            match &verdict {
                Ok(allowed) if allowed.is_allowed() => {
                    charges.extend(Charge::of(limiter, subject, allowed, sent));
                }
                _ => give_back(&charges).await,
            }
            before = before.and(&verdict?);
            if !before.is_allowed() {
                break;
            }
        }
        Ok(before.into_verdict())
    }
}

/// What a limiter was charged on the store.
struct Charge<'a> {
    limiter: &'a Limiter,
    subject: &'a Subject,
    cost: u64,
    /// It may be given back until then.
    until: Uptime,
}

impl<'a> Charge<'a> {
    /// `None`: it was charged nowhere.
    fn of(limiter: &'a Limiter, subject: &'a Subject, allowed: &Verdict, sent: Uptime) -> Option<Self> {
        let detail = allowed.detail();
        let until = limiter.checker.plan.returnable_until(detail.standings(), sent);
        (detail.source() == Source::Store).then_some(Self {
            limiter,
            subject,
            cost: allowed.granted(),
            until,
        })
    }
}

/// As far as it goes: what cannot be given back stays charged.
async fn give_back(charges: &[Charge<'_>]) {
    for Charge { limiter, subject, cost, until } in charges {
        if limiter.now() < *until
            && let Err(error) = limiter.refund(*subject, *cost).await
        {
            limit_refund_failed(limiter.name(), *cost, &error);
        }
    }
}

impl std::fmt::Debug for Joint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Joint").field(&self.limiters).finish()
    }
}
