//! How a check is decided: by the store, by what is remembered, or by the policy for when the store is away.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::limit::{
    Ask, Check, Checked, Outcome, Peek, Quota, Refund, Refunded, Reset, Standing, Subject,
};
use lockkeeper_core::{Error, Keys, MemoryStore, Timestamp, Uptime};

use super::away::{WhenAway, is_away};
use super::batch::Batches;
use super::calls::Calls;
use super::denials::Denials;
use super::plan::Plan;
use super::ready::Lines;
use super::share::Shares;
use super::verdict::{Source, Verdict};
use crate::backend::Backend;
use crate::keeper::Inner;
use crate::striped::Striped;
use crate::telemetry::events::{limit_denied, limit_denied_is_seen};
use crate::telemetry::{Decided, LimitClass};

/// After this, a store that is away may be back.
const PERHAPS_BACK: Duration = Duration::from_secs(1);

/// Everything that the clones of a limiter share.
pub(super) struct Checker {
    pub(super) inner: Arc<Inner>,
    pub(super) plan: Arc<Plan>,
    /// The same for verdicts to hold: threads that count one copy's holders would be in each other's way.
    plans: Striped<Arc<Plan>>,
    pub(super) class: LimitClass,
    pub(super) terms: Terms,
    pub(super) lines: Lines,
    batches: Batches,
    denials: Denials,
    shares: Option<Shares>,
}

/// What a caller can choose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) away: WhenAway,
    pub(super) decide_within: Duration,
    pub(super) remembers: bool,
    pub(super) is_exact: bool,
}

impl Checker {
    pub(super) fn new(inner: Arc<Inner>, plan: Arc<Plan>, class: LimitClass, terms: Terms) -> Self {
        let shares = match terms.away {
            WhenAway::Share { instances } => Some(Shares::new(&plan, instances, inner.clock.clone())),
            _ => None,
        };
        // A check may wait for one call that is under way, and then goes with the next.
        let within = terms.decide_within / 2;
        let calls = Calls { inner: inner.clone(), class };
        let batches = Batches::new(calls, plan.quotas.clone(), within);
        let plans = Striped::new(|| Arc::new(Plan::clone(&plan)));
        Self {
            inner,
            plan,
            plans,
            class,
            terms,
            lines: Lines::default(),
            batches,
            denials: Denials::default(),
            shares,
        }
    }

    /// Decides, whoever can.
    pub(super) async fn check(&self, keys: &Keys, ask: Ask) -> Result<Verdict, Error> {
        let sent = self.inner.clock.uptime();
        let result = self.decide(keys, ask, sent).await;
        self.counted(keys, ask, sent, result)
    }

    /// One limit in the memory store: without a future, an allocation or a second look at the clock. `None`: not that
    /// simple.
    pub(super) fn at_once(&self, subject: &Subject, ask: Ask) -> Option<Verdict> {
        let (Backend::Memory(store), [quota]) = (&self.inner.backend, &*self.plan.quotas) else {
            return None;
        };
        if ask.cost == 0 || self.plan.passes_nothing || self.inner.is_closed() {
            return None;
        }
        let checked = store.check_one(&self.plan.one_key(subject)?, *quota, ask).ok()?;
        let verdict = self.verdict(checked, Source::Store);
        self.class.decided_many(Decided::from(&verdict), Source::Store, 1);
        if !verdict.is_allowed() && limit_denied_is_seen() {
            let keys = self.plan.keys(std::slice::from_ref(subject)).ok()?;
            limit_denied(self.class.name(), &keys, ask.cost, verdict.retry_after(), Source::Store);
        }
        Some(verdict)
    }

    /// The answer to a call at `sent`, counted.
    pub(super) fn counted(
        &self,
        keys: &Keys,
        ask: Ask,
        sent: Uptime,
        result: Result<Verdict, Error>,
    ) -> Result<Verdict, Error> {
        let took = || self.inner.clock.uptime().since(sent);
        match &result {
            Ok(verdict) => {
                self.class.decided(verdict, took);
                if !verdict.is_allowed() {
                    let (retry_after, source) = (verdict.retry_after(), verdict.detail().source());
                    limit_denied(self.class.name(), keys, ask.cost, retry_after, source);
                }
            }
            Err(_) => self.class.failed(took()),
        }
        result
    }

    /// A verdict for which nobody had to be asked.
    pub(super) fn constant(&self, verdict: Verdict) -> Verdict {
        self.class.decided(&verdict, || Duration::ZERO);
        verdict
    }

    async fn decide(&self, keys: &Keys, ask: Ask, sent: Uptime) -> Result<Verdict, Error> {
        match self.ask_store(keys, ask, sent).await {
            Ok(verdict) => Ok(verdict),
            Err(error) => self.without_store(keys, ask, error),
        }
    }

    /// Asks the store, or what is remembered of it; whatever the policy.
    pub(super) async fn ask_store(&self, keys: &Keys, ask: Ask, sent: Uptime) -> Result<Verdict, Error> {
        if let Backend::Memory(store) = &self.inner.backend {
            return self.ask_memory(store, keys, ask);
        }
        if self.terms.remembers
            && let Some(denied) = self.denials.of(keys, ask.least(), sent, &self.inner.returned)
        {
            return Ok(self.verdict(denied, Source::Remembered));
        }
        self.batches.calls().may_ask(keys, sent)?;
        let checked = self.batches.check(keys, ask, sent).await?;
        Ok(self.decided(keys, ask, checked, sent))
    }

    /// Without a future, and for one limit without an allocation.
    fn ask_memory(&self, store: &MemoryStore, keys: &Keys, ask: Ask) -> Result<Verdict, Error> {
        let checked = match (&*self.plan.quotas, keys.as_slice()) {
            ([quota], [key]) => store
                .check_one(key.as_bytes(), *quota, ask)
                .map_err(|wrong| wrong.into_error::<Check>(keys))?,
            _ => {
                let check =
                    Check { quotas: self.plan.quotas.clone(), asks: [ask].into(), not_after: Timestamp::MAX };
                store.apply_now(keys, check, self.terms.decide_within)?.reply.checked.remove(0)
            }
        };
        Ok(self.verdict(checked, Source::Store))
    }

    fn decided(&self, keys: &Keys, ask: Ask, checked: Checked, sent: Uptime) -> Verdict {
        let verdict = self.verdict(checked, Source::Store);
        match (&verdict, &self.shares) {
            (Verdict::Denied { .. }, _) if self.terms.remembers => {
                let now = self.inner.clock.uptime();
                self.denials.remember(keys, ask.least(), &verdict, sent, now);
            }
            (Verdict::Allowed { granted, .. }, Some(shares)) => shares.note(keys, *granted),
            _ => {}
        }
        verdict
    }

    pub(super) fn verdict(&self, checked: Checked, source: Source) -> Verdict {
        Verdict::new(self.plans.mine(), checked, source)
    }

    /// The store does not decide: the caller's policy does, unless the error is a mistake that it would hide.
    pub(super) fn without_store(&self, keys: &Keys, ask: Ask, error: Error) -> Result<Verdict, Error> {
        if !is_away(&error) {
            return Err(error);
        }
        if self.terms.away != WhenAway::Refuse {
            self.class.degraded(&error, self.inner.clock.uptime());
        }
        match (self.terms.away, &self.shares) {
            (WhenAway::Allow, _) => Ok(self.verdict(self.all_allowed(ask), Source::Unchecked)),
            (WhenAway::Share { .. }, Some(shares)) => {
                Ok(self.verdict(self.out_of_share(shares, keys, ask)?, Source::Share))
            }
            _ => Err(error),
        }
    }

    /// *Never* is said of what the whole limit can never hold; what only the share cannot hold may pass when the store is
    /// back.
    fn out_of_share(&self, shares: &Shares, keys: &Keys, ask: Ask) -> Result<Checked, Error> {
        if let Some(by) = self.plan.quotas.iter().position(|quota| ask.least() > quota.capacity()) {
            return Ok(self.unasked(Outcome::Never { by }));
        }
        let Some(decided) = shares.decide(keys, ask) else {
            return Ok(self.unasked(Outcome::Denied { by: 0 }));
        };
        let mut checked = decided?;
        if let Outcome::Never { by } = checked.outcome {
            checked.outcome = Outcome::Denied { by };
            let too_small = checked.standings.iter_mut().filter(|standing| standing.retry_after.is_none());
            too_small.for_each(|standing| standing.retry_after = Some(PERHAPS_BACK));
        }
        Ok(checked)
    }

    /// An allowance that nobody checked.
    pub(super) fn all_allowed(&self, ask: Ask) -> Checked {
        self.unasked(Outcome::Allowed { granted: ask.cost })
    }

    /// What is said without counting.
    fn unasked(&self, outcome: Outcome) -> Checked {
        let is_allowed = matches!(outcome, Outcome::Allowed { .. });
        let wait = if is_allowed { Duration::ZERO } else { PERHAPS_BACK };
        let standing = |(at, quota): (usize, &Quota)| Standing {
            limit: quota.capacity(),
            remaining: if is_allowed { quota.capacity() } else { 0 },
            retry_after: (outcome != Outcome::Never { by: at }).then_some(wait),
            reset: wait,
        };
        Checked { outcome, standings: self.plan.quotas.iter().enumerate().map(standing).collect() }
    }

    pub(super) async fn peek(&self, keys: &Keys, ask: Ask) -> Result<Verdict, Error> {
        let peek = Peek { quotas: self.plan.quotas.clone(), ask };
        let answer = self.inner.backend.apply_limit(keys, peek, self.inner.response_timeout).await?;
        Ok(self.verdict(answer.reply, Source::Store))
    }

    pub(super) async fn refund(&self, keys: &Keys, cost: u64) -> Result<Refunded, Error> {
        let refund = Refund { quotas: self.plan.quotas.clone(), cost, not_after: Timestamp::MAX };
        let answer = self.inner.backend.apply_limit(keys, refund, self.inner.response_timeout).await;
        let now = self.inner.clock.uptime();
        self.inner.returned.note(keys, now);
        let refunded = answer?.reply;
        if refunded.repaired > 0 {
            self.class.repaired(refunded.repaired, now);
        }
        Ok(refunded)
    }

    pub(super) async fn reset(&self, keys: &Keys) -> Result<usize, Error> {
        let reset = Reset { quotas: self.plan.quotas.clone() };
        let answer = self.inner.backend.apply_limit(keys, reset, self.inner.response_timeout).await;
        self.inner.returned.note(keys, self.inner.clock.uptime());
        Ok(answer?.reply)
    }
}
