//! The tokens of one subject that this process has taken in advance.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::limit::{Ask, Checked, Outcome, Standing};
use lockkeeper_core::{Error, Keys, Uptime};
use parking_lot::Mutex as Short;
use tokio::sync::Mutex;

use super::checker::Checker;
use super::leased::LeaseTerms;
use super::pot::Pot;
use super::verdict::{Source, Verdict};
use crate::clock::sleep_until;
use crate::telemetry::Decided;
use crate::telemetry::events::limit_refund_failed;

/// What the first chunk has; then it follows the use.
const FIRST_CHUNK: u64 = 16;
/// A chunk is at most this part of what is left, so that the last of a quota is not taken away from other processes.
const LEFT_PART: u64 = 4;
/// But asking for this part of the capacity is always right.
const SMALL_PART: u64 = 1000;

pub(super) struct Purse {
    checker: Arc<Checker>,
    keys: Keys,
    terms: LeaseTerms,
    pot: Pot,
    /// Microseconds of uptime: until then tokens may be spent.
    fresh_until: AtomicU64,
    /// Until then they may go back: later the store has them again by itself, and a second time would be a gift.
    returns_until: AtomicU64,
    /// When all is there again, as the store said.
    resets_at: AtomicU64,
    is_closed: AtomicBool,
    /// Somebody returns what grows old.
    has_returner: AtomicBool,
    /// One takes the next chunk; the others wait for it.
    gate: Mutex<()>,
    chunk: Short<Chunk>,
}

/// How much to take next.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    size: u64,
    /// What the store had left after the last one.
    left: u64,
    /// When the last one was taken; `None`: there was none.
    taken: Option<Uptime>,
}

impl Purse {
    pub(super) fn new(checker: Arc<Checker>, keys: Keys, terms: LeaseTerms) -> Self {
        let zero = || AtomicU64::new(0);
        let chunk = Chunk { size: FIRST_CHUNK, left: u64::MAX, taken: None };
        Self {
            checker,
            keys,
            terms,
            pot: Pot::default(),
            fresh_until: zero(),
            returns_until: zero(),
            resets_at: zero(),
            is_closed: AtomicBool::new(false),
            has_returner: AtomicBool::new(false),
            gate: Mutex::default(),
            chunk: Short::new(chunk),
        }
    }

    pub(super) fn tokens(&self) -> u64 {
        self.pot.tokens()
    }

    fn now(&self) -> Uptime {
        self.checker.inner.clock.uptime()
    }

    fn is_fresh(&self, now: Uptime) -> bool {
        now.as_micros() < self.fresh_until.load(Ordering::Acquire)
    }

    /// Spends `cost` of what is there. `None`: there is not enough, or it is too old.
    pub(super) fn spend(&self, cost: u64) -> Option<Verdict> {
        let now = self.now();
        if cost == 0 || !self.is_fresh(now) {
            return None;
        }
        let remaining = self.pot.spend(cost)?;
        Some(self.spent_verdict(cost, remaining, now))
    }

    fn spent_verdict(&self, granted: u64, remaining: u64, now: Uptime) -> Verdict {
        let reset = Uptime::from_micros(self.resets_at.load(Ordering::Relaxed)).since(now);
        let quotas = self.checker.plan.quotas.iter();
        let standings = quotas.map(|quota| Standing {
            limit: quota.capacity(),
            remaining,
            retry_after: Some(Duration::ZERO),
            reset,
        });
        let checked = Checked { outcome: Outcome::Allowed { granted }, standings: standings.collect() };
        self.checker.verdict(checked, Source::Leased)
    }

    /// Spends, taking a chunk where need be.
    pub(super) async fn check(self: &Arc<Self>, cost: u64) -> Result<Verdict, Error> {
        let checker = &self.checker;
        if self.is_closed.load(Ordering::Acquire) || cost > self.terms.max_chunk {
            return checker.check(&self.keys, Ask::whole(cost)).await;
        }
        let _front = self.gate.lock().await;
        if let Some(verdict) = self.spend(cost) {
            return Ok(verdict);
        }
        if self.is_closed.load(Ordering::Acquire) {
            return checker.check(&self.keys, Ask::whole(cost)).await;
        }
        let (ask, sent) = (Ask::whole(cost), self.now());
        match self.take_chunk(cost).await {
            // There was less than was wanted: only the store knows when there is more.
            Ok(()) => match self.spend(cost) {
                Some(verdict) => Ok(verdict),
                None => checker.check(&self.keys, ask).await,
            },
            Err(Refused::Verdict(verdict)) => checker.counted(&self.keys, ask, sent, Ok(*verdict)),
            Err(Refused::Error(error)) => {
                let result = checker.without_store(&self.keys, ask, error);
                checker.counted(&self.keys, ask, sent, result)
            }
        }
    }

    async fn take_chunk(self: &Arc<Self>, cost: u64) -> Result<(), Refused> {
        let sent = self.now();
        self.count_spent();
        if !self.is_fresh(sent) {
            self.send_back(self.empty());
        }
        let wanted = self.next_chunk(sent).max(cost);
        let verdict =
            self.checker.ask_store(&self.keys, Ask::up_to(wanted), sent).await.map_err(Refused::Error)?;
        let Verdict::Allowed { granted, ref detail, .. } = verdict else {
            return Err(Refused::Verdict(Box::new(verdict)));
        };
        let now = self.now();
        let left = detail.standings().iter().map(|standing| standing.remaining).min().unwrap_or(0);
        *self.chunk.lock() = Chunk { size: wanted, left, taken: Some(sent) };
        let resets = detail.standings().iter().map(|standing| standing.reset).max().unwrap_or_default();
        self.resets_at.store(now.after(resets).as_micros(), Ordering::Relaxed);
        let returns_until = self.checker.plan.returnable_until(detail.standings(), sent).as_micros();
        // Older tokens keep their age, and so give it to the new ones.
        if self.tokens() == 0 {
            self.returns_until.store(returns_until, Ordering::Release);
            self.fresh_until.store(sent.after(self.terms.max_age).as_micros(), Ordering::Release);
        } else {
            self.returns_until.fetch_min(returns_until, Ordering::AcqRel);
        }
        self.pot.put(granted);
        self.have_old_ones_returned();
        Ok(())
    }

    /// Twice the last chunk when that was used up quickly, half of it when it grew old.
    fn next_chunk(&self, now: Uptime) -> u64 {
        let chunk = *self.chunk.lock();
        let size = match chunk.taken.map(|taken| now.since(taken)) {
            Some(age) if age < self.terms.max_age / 4 => chunk.size.saturating_mul(2),
            Some(age) if age > self.terms.max_age => chunk.size / 2,
            _ => chunk.size,
        };
        let capacity = self.checker.plan.quotas.iter().map(|quota| quota.capacity()).min().unwrap_or(1);
        let fair = (chunk.left / LEFT_PART).max(capacity / SMALL_PART);
        size.min(fair).clamp(1, self.terms.max_chunk)
    }

    /// Returns what nobody spends in time.
    fn have_old_ones_returned(self: &Arc<Self>) {
        if self.has_returner.swap(true, Ordering::AcqRel) {
            return;
        }
        let returner = Returner(self.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(returner.run()));
        }
    }

    /// In the background.
    fn send_back(self: &Arc<Self>, rest: Rest) {
        if rest.tokens > 0
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let purse = self.clone();
            drop(runtime.spawn(async move { purse.refund(rest).await }));
        }
    }

    /// Takes out all there is.
    fn empty(&self) -> Rest {
        // Read first: it is written before what it is about is put in.
        let until = Uptime::from_micros(self.returns_until.load(Ordering::Acquire));
        Rest { tokens: self.pot.empty(), until }
    }

    /// As far as it goes: what cannot be given back stays charged.
    async fn refund(&self, rest: Rest) {
        if rest.tokens == 0 || self.now() >= rest.until {
            return;
        }
        if let Err(error) = self.checker.refund(&self.keys, rest.tokens).await {
            limit_refund_failed(self.checker.class.name(), rest.tokens, &error);
        }
    }

    /// Returns what is left, and takes no more.
    pub(super) async fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        // After whoever takes a chunk at the moment.
        let _front = self.gate.lock().await;
        self.count_spent();
        self.refund(self.empty()).await;
    }

    fn count_spent(&self) {
        self.checker.class.decided_many(Decided::Allowed, Source::Leased, self.pot.spent());
    }
}

/// What was taken out, and until when it may go back.
struct Rest {
    tokens: u64,
    until: Uptime,
}

/// Returns what grows old. Another one comes when this one goes, also where it never ran or its runtime has ended.
struct Returner(Arc<Purse>);

impl Returner {
    async fn run(self) {
        let purse = self.0.clone();
        loop {
            let until = Uptime::from_micros(purse.fresh_until.load(Ordering::Acquire));
            sleep_until(&*purse.checker.inner.clock, until).await;
            if !purse.is_fresh(purse.now()) {
                break;
            }
        }
        drop(self);
        purse.count_spent();
        purse.refund(purse.empty()).await;
    }
}

impl Drop for Returner {
    fn drop(&mut self) {
        self.0.has_returner.store(false, Ordering::Release);
    }
}

enum Refused {
    Verdict(Box<Verdict>),
    Error(Error),
}

impl fmt::Debug for Purse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Purse({}: {} tokens)", self.keys, self.tokens())
    }
}
