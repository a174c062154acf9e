//! How many retries a client may make: a share of its requests, so that retries cannot multiply an outage.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::bad_policy::{BadPolicy, within};

/// For so long the minimum per second is saved while nothing happens.
const RESERVE_SECONDS: u64 = 10;
const MAX_SAVED: u32 = 1_000_000;
/// Budgets count in thousandths of a retry.
const ONE: u64 = 1_000;

/// How many retries are allowed, over all clones of a layer.
#[derive(Clone, Debug)]
pub struct BudgetPolicy {
    share: f64,
    per_second: u32,
    max_saved: u32,
}

impl Default for BudgetPolicy {
    fn default() -> Self {
        Self { share: 0.2, per_second: 1, max_saved: 100 }
    }
}

impl BudgetPolicy {
    /// Retries that each first attempt pays for: 0 to 1, default 0.2.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        Self { share, ..self }
    }

    /// Retries that are allowed per second in any case, saved for at most 10 s: 0 to 1,000,000, default 1. A new
    /// client starts with these 10 s.
    #[must_use]
    pub fn per_second(self, retries: u32) -> Self {
        Self { per_second: retries, ..self }
    }

    /// The most retries that can be saved up: 0 to 1,000,000, default 100. Zero allows none at all.
    #[must_use]
    pub fn max_saved(self, retries: u32) -> Self {
        Self { max_saved: retries, ..self }
    }

    pub(crate) fn check(&self) -> Result<(), BadPolicy> {
        within("budget share", self.share, 0.0..=1.0)?;
        within("budget per second", self.per_second, 0..=MAX_SAVED)?;
        within("budget max saved", self.max_saved, 0..=MAX_SAVED)
    }

    fn deposit(&self) -> u64 {
        (self.share * ONE as f64).round() as u64
    }

    fn most(&self) -> u64 {
        u64::from(self.max_saved) * ONE
    }

    fn reserve(&self) -> u64 {
        (u64::from(self.per_second) * RESERVE_SECONDS * ONE).min(self.most())
    }
}

/// What is left of it.
#[derive(Debug)]
pub(crate) struct Budget {
    policy: BudgetPolicy,
    account: Mutex<Account>,
}

#[derive(Debug)]
struct Account {
    level: u64,
    /// Up to when the minimum per second has been paid in.
    paid_until: Instant,
}

impl Budget {
    pub(crate) fn new(policy: BudgetPolicy, now: Instant) -> Self {
        let account = Mutex::new(Account { level: policy.reserve(), paid_until: now });
        Self { policy, account }
    }

    /// A first attempt was made.
    pub(crate) fn deposit(&self) {
        let mut account = self.account.lock();
        account.level = (account.level + self.policy.deposit()).min(self.policy.most());
    }

    /// Takes one retry; `false` when there is none.
    pub(crate) fn withdraw(&self, now: Instant) -> bool {
        let mut account = self.account.lock();
        account.pay_in(&self.policy, now);
        match account.level.checked_sub(ONE) {
            Some(left) => {
                account.level = left;
                true
            }
            None => false,
        }
    }
}

impl Account {
    fn pay_in(&mut self, policy: &BudgetPolicy, now: Instant) {
        // Per second a retry is per millisecond a thousandth.
        let ms = u64::try_from(now.duration_since(self.paid_until).as_millis()).unwrap_or(u64::MAX);
        self.paid_until += Duration::from_millis(ms);
        let reserve = policy.reserve();
        if self.level < reserve {
            self.level = self.level.saturating_add(ms.saturating_mul(policy.per_second.into())).min(reserve);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn withdrawals(budget: &Budget, now: Instant) -> usize {
        (0..1_000).take_while(|_| budget.withdraw(now)).count()
    }

    #[test]
    fn a_fifth_of_the_first_attempts_may_be_retried() {
        let now = Instant::now();
        let budget = Budget::new(BudgetPolicy::default().per_second(0), now);
        assert_eq!(withdrawals(&budget, now), 0);
        (0..50).for_each(|_| budget.deposit());
        assert_eq!(withdrawals(&budget, now), 10);
    }

    #[test]
    fn a_quiet_client_may_retry_a_little_all_the_same() {
        let start = Instant::now();
        let budget = Budget::new(BudgetPolicy::default(), start);
        assert_eq!(withdrawals(&budget, start), 10);
        assert_eq!(withdrawals(&budget, start + Duration::from_millis(999)), 0);
        assert_eq!(withdrawals(&budget, start + Duration::from_millis(2_000)), 2);
        assert_eq!(withdrawals(&budget, start + Duration::from_secs(86_400)), 10);
    }

    #[test]
    fn what_is_saved_is_bounded() {
        let now = Instant::now();
        let budget = Budget::new(BudgetPolicy::default().share(1.0), now);
        (0..100_000).for_each(|_| budget.deposit());
        assert_eq!(withdrawals(&budget, now), 100);
        let none = Budget::new(BudgetPolicy::default().max_saved(0), now);
        none.deposit();
        assert_eq!(withdrawals(&none, now + Duration::from_secs(60)), 0);
    }
}
