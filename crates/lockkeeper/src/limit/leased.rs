//! Hot keys: a process takes tokens in advance and spends them by itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use lockkeeper_core::limit::{Algorithm, Ask, IntoSubject, Subject};
use lockkeeper_core::{Error, ErrorKind};
use parking_lot::{Mutex, RwLock};

use super::limiter::{CHECK, Limiter};
use super::purse::Purse;
use super::verdict::Verdict;

/// The longest time that a token may lie in a purse, unless said otherwise.
pub const DEFAULT_LEASE_AGE: Duration = Duration::from_secs(1);
/// So many subjects of one limiter have a purse; those beyond ask the store each time.
const MAX_PURSES: usize = 10_000;
/// When there are so many, every so many subjects without one look for purses that nobody uses any more: looking takes as long as
/// there are purses, and holds up the others.
const LOOK_EVERY: usize = 1_000;
/// The most that one purse takes at once.
const MAX_CHUNK: u64 = 1_000_000;
/// A purse takes at most this part of the capacity at once, unless said otherwise.
const CHUNK_PART: u64 = 100;
/// So many purses are closed at once.
const CLOSING: usize = 64;
const OPERATION: &str = "leased";

/// A limiter for hot keys. Made by [`Limiter::leased`]; cheap to clone.
///
/// Bound: what all processes admit together never exceeds what was taken from the store, so the total of a run is within
/// the limit. Tokens are spent later than they were taken, by at most [`max_age`](Self::max_age); so within a given
/// interval the algorithm's bound may be exceeded by what was lying in purses when the interval began: at most one
/// [chunk](Self::max_chunk) per process.
#[derive(Clone)]
pub struct LeasedLimiter {
    limiter: Limiter,
    terms: LeaseTerms,
    purses: Arc<RwLock<HashMap<Subject, Arc<Purse>>>>,
    /// Subjects that found no room for a purse.
    homeless: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseTerms {
    pub(super) max_age: Duration,
    pub(super) max_chunk: u64,
}

/// Every purse of a keeper, so that closing it can return what lies in them.
#[derive(Debug, Default)]
pub(crate) struct Purses(Mutex<Vec<Weak<Purse>>>);

impl Purses {
    fn add(&self, purse: &Arc<Purse>) {
        let mut all = self.0.lock();
        if all.len() == all.capacity() {
            all.retain(|purse| purse.strong_count() > 0);
        }
        all.push(Arc::downgrade(purse));
    }

    /// Returns what lies in all purses, and closes them.
    pub(crate) async fn close(&self) {
        // They stay in the list: whoever gives up waiting may call again.
        let all: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        let closing = all.iter().map(|purse| purse.close());
        futures_util::stream::iter(closing).for_each_concurrent(CLOSING, |closing| closing).await;
    }
}

impl Limiter {
    /// The same limits for hot keys: this process takes tokens in advance, in chunks that follow its use, and spends
    /// them without asking anybody. What it does not need goes back when the chunk grows old, and when the keeper is
    /// closed.
    ///
    /// # Errors
    /// A sliding log, or an [`exact`](Self::exact) limiter: they promise what leasing cannot keep.
    pub fn leased(&self) -> Result<LeasedLimiter, Error> {
        let refuse =
            |why: &str| Err(Error::new(ErrorKind::Unsupported, OPERATION, why).with_key(self.name()));
        let is_log =
            |quota: &lockkeeper_core::limit::Quota| matches!(quota.algorithm(), Algorithm::SlidingLog { .. });
        let quotas = &self.checker.plan.quotas;
        if self.checker.terms.is_exact {
            return refuse("the limiter is exact, and tokens that were taken in advance are spent later");
        }
        if quotas.iter().any(is_log) {
            return refuse(
                "a sliding log promises never more than its count in any window; leasing cannot keep that",
            );
        }
        let capacity = quotas.iter().map(|quota| quota.capacity()).min().unwrap_or(1);
        let max_chunk = (capacity / CHUNK_PART).clamp(1, MAX_CHUNK);
        let terms = LeaseTerms { max_age: DEFAULT_LEASE_AGE, max_chunk };
        Ok(LeasedLimiter { limiter: self.clone(), terms, purses: Arc::default(), homeless: Arc::default() })
    }
}

impl LeasedLimiter {
    /// Tokens are spent at most this long after they were taken; one second unless said otherwise, at least 10 ms.
    #[must_use]
    pub fn max_age(self, age: Duration) -> Self {
        let terms = LeaseTerms { max_age: age.max(Duration::from_millis(10)), ..self.terms };
        Self { terms, purses: Arc::default(), ..self }
    }

    /// The most that this process takes at once, and so has lying about, per subject: a hundredth of the capacity unless
    /// said otherwise; 1 to 1,000,000.
    #[must_use]
    pub fn max_chunk(self, tokens: u64) -> Self {
        let terms = LeaseTerms { max_chunk: tokens.clamp(1, MAX_CHUNK), ..self.terms };
        Self { terms, purses: Arc::default(), ..self }
    }

    /// Takes one.
    ///
    /// # Redis
    /// None while the purse has tokens; else as [`Limiter::check`], for a whole chunk.
    ///
    /// # Errors
    /// As [`Limiter::check`].
    ///
    /// # Cancel safety
    /// What was taken for the purse stays in it, or goes back when it grows old.
    pub async fn check(&self, subject: impl IntoSubject) -> Result<Verdict, Error> {
        self.check_cost(subject, 1).await
    }

    /// Takes `cost`, or nothing.
    ///
    /// # Redis
    /// As [`check`](Self::check).
    ///
    /// # Errors
    /// As [`Limiter::check_cost`].
    ///
    /// # Cancel safety
    /// As [`check`](Self::check).
    pub async fn check_cost(&self, subject: impl IntoSubject, cost: u64) -> Result<Verdict, Error> {
        let subject = subject.into_subject()?;
        if let Some(verdict) = self.purses.read().get(&subject).and_then(|purse| purse.spend(cost)) {
            return Ok(verdict);
        }
        match self.limiter.prepared(CHECK, &subject, Ask::whole(cost))? {
            Err(verdict) => Ok(self.limiter.checker.constant(verdict)),
            Ok(keys) => match self.purse(subject, keys.clone()) {
                Some(purse) => purse.check(cost).await,
                None => self.limiter.checker.check(&keys, Ask::whole(cost)).await,
            },
        }
    }

    /// How many tokens lie in this process's purses.
    pub fn outstanding(&self) -> u64 {
        self.purses.read().values().map(|purse| purse.tokens()).sum()
    }

    fn purse(&self, subject: Subject, keys: lockkeeper_core::Keys) -> Option<Arc<Purse>> {
        if let Some(purse) = self.purses.read().get(&subject) {
            return Some(purse.clone());
        }
        let is_full = self.purses.read().len() >= MAX_PURSES;
        if is_full && !self.homeless.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_EVERY) {
            return None;
        }
        let mut purses = self.purses.write();
        if purses.len() >= MAX_PURSES && !purses.contains_key(&subject) {
            purses.retain(|_, purse| purse.tokens() > 0 || Arc::strong_count(purse) > 1);
            if purses.len() >= MAX_PURSES {
                return None;
            }
        }
        let purse = purses.entry(subject).or_insert_with(|| {
            let purse = Arc::new(Purse::new(self.limiter.checker.clone(), keys, self.terms));
            self.limiter.checker.inner.purses.add(&purse);
            purse
        });
        Some(purse.clone())
    }
}

impl fmt::Debug for LeasedLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedLimiter")
            .field("limiter", &self.limiter)
            .field("max_age", &self.terms.max_age)
            .field("max_chunk", &self.terms.max_chunk)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::keeper::Keeper;

    /// A call that waited at the purse while it was closed is still answered, and leaves nothing lying about.
    #[tokio::test]
    async fn a_closed_purse_takes_nothing_in_advance() {
        let keeper = Keeper::connect("memory://").await.unwrap();
        let limiter = keeper.limiter("closing", "100/h fixed-window-from-first").unwrap();
        let leased = limiter.clone().leased().unwrap().max_chunk(10);
        assert!(leased.check("u").await.unwrap().is_allowed());
        assert!(leased.outstanding() > 0);
        keeper.inner.purses.close().await;
        assert_eq!(leased.outstanding(), 0);
        assert!(leased.check("u").await.unwrap().is_allowed());
        assert_eq!(leased.outstanding(), 0);
        assert_eq!(limiter.peek("u", 1).await.unwrap().remaining(), 98);
    }
}
