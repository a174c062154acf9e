//! Everything about a client's retries that can be set, with its unit, its bounds and its default.

use std::error::Error;
use std::time::Duration;

use http::{Method, StatusCode};

use super::backoff::Waits;
use super::bad_policy::{BadPolicy, within};
use super::budget::BudgetPolicy;
use super::circuit::CircuitPolicy;
use super::error::Shed;

const MAX_ATTEMPTS: u32 = 100;
const MAX_ORIGINS: usize = 1_000_000;
const MAX_HELD_BACK: usize = 1_000_000;
const SHORTEST: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

/// When a client sends a request once more, when it waits, and when it gives up.
///
/// ```
/// use std::time::Duration;
/// use lockkeeper_tower::RetryAfterLayer;
/// use lockkeeper_tower::retry_after::RetryPolicy;
///
/// let policy = RetryPolicy::default().max_attempts(3).max_wait(Duration::from_secs(10));
/// let layer = RetryAfterLayer::new(policy)?;
/// # Ok::<(), lockkeeper_tower::retry_after::BadPolicy>(())
/// ```
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    pub(crate) statuses: Vec<StatusCode>,
    pub(crate) idempotent: Vec<Method>,
    pub(crate) may_pass: fn(&(dyn Error + 'static)) -> bool,
    pub(crate) max_attempts: u32,
    pub(crate) max_wait: Duration,
    pub(crate) max_elapsed: Duration,
    pub(crate) waits: Waits,
    pub(crate) budget: BudgetPolicy,
    pub(crate) circuit: Option<CircuitPolicy>,
    pub(crate) hold_back: bool,
    pub(crate) max_hold: Duration,
    pub(crate) max_origins: usize,
    pub(crate) max_held_back: usize,
    pub(crate) seed: Option<u64>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            statuses: vec![StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE],
            idempotent: vec![Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS],
            may_pass: |error| !error.is::<Shed>(),
            max_attempts: 4,
            max_wait: Duration::from_secs(60),
            max_elapsed: Duration::from_secs(120),
            waits: Waits {
                min_wait: Duration::from_millis(100),
                jitter: 0.25,
                min_jitter: Duration::from_millis(100),
                backoff_base: Duration::from_millis(100),
                backoff_cap: Duration::from_secs(10),
            },
            budget: BudgetPolicy::default(),
            circuit: Some(CircuitPolicy::default()),
            hold_back: true,
            max_hold: Duration::from_secs(3_600),
            max_origins: 1_024,
            max_held_back: 1_024,
            seed: None,
        }
    }
}

impl RetryPolicy {
    /// Statuses that mean "not now". Default 429 and 503. Their hints are read, they are sent again, and the circuit
    /// counts them as not accepted.
    #[must_use]
    pub fn statuses(self, statuses: impl IntoIterator<Item = StatusCode>) -> Self {
        Self { statuses: statuses.into_iter().collect(), ..self }
    }

    /// Methods that may be sent again although the first attempt may have done something. Default GET, HEAD, PUT,
    /// DELETE, OPTIONS. Others are sent again only after a 429, or a 503 with `Retry-After`: these refuse before acting.
    #[must_use]
    pub fn idempotent_methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        Self { idempotent: methods.into_iter().collect(), ..self }
    }

    /// Which errors of the client below may be gone the next time. Default all but [`Shed`]. Others are passed on at once,
    /// and the circuit takes their attempt as not made.
    ///
    /// ```
    /// # use lockkeeper_tower::retry_after::RetryPolicy;
    /// let policy = RetryPolicy::default().errors_that_may_pass(|error| error.is::<std::io::Error>());
    /// ```
    #[must_use]
    pub fn errors_that_may_pass(self, may_pass: fn(&(dyn Error + 'static)) -> bool) -> Self {
        Self { may_pass, ..self }
    }

    /// How often a request is sent at most, the first time included: 1 to 100, default 4.
    #[must_use]
    pub fn max_attempts(self, attempts: u32) -> Self {
        Self { max_attempts: attempts, ..self }
    }

    /// The longest hint that is waited for: 1 ms to 24 h, default 60 s. After a longer one the refusal is passed on at
    /// once, as it came. Jitter comes on top.
    #[must_use]
    pub fn max_wait(self, wait: Duration) -> Self {
        Self { max_wait: wait, ..self }
    }

    /// The longest time from the call to the start of its last attempt: 1 ms to 24 h, default 2 min. A wait that would
    /// end later is not begun, and the client below must be ready by then. An attempt under way is not cut off: put a time-out *below* this layer, so that the
    /// circuit sees it.
    #[must_use]
    pub fn max_elapsed(self, elapsed: Duration) -> Self {
        Self { max_elapsed: elapsed, ..self }
    }

    /// What is waited after a shorter hint, such as `Retry-After: 0`: 1 ms to 24 h, default 100 ms. Jitter comes on top.
    #[must_use]
    pub fn min_wait(mut self, wait: Duration) -> Self {
        self.waits.min_wait = wait;
        self
    }

    /// How much longer than the hint a client waits at most, as a share of it: 0.1 to 1, default 0.25. Each wait draws
    /// its own. Less than a tenth would bring everybody back together.
    #[must_use]
    pub fn jitter(mut self, share: f64) -> Self {
        self.waits.jitter = share;
        self
    }

    /// The least room for jitter after a short hint: 1 ms to 24 h, default 100 ms.
    #[must_use]
    pub fn min_jitter(mut self, jitter: Duration) -> Self {
        self.waits.min_jitter = jitter;
        self
    }

    /// The longest wait before the first retry without a hint; doubles with every retry: 1 ms to 24 h, default 100 ms.
    #[must_use]
    pub fn backoff_base(mut self, base: Duration) -> Self {
        self.waits.backoff_base = base;
        self
    }

    /// The longest wait before any retry without a hint: 1 ms to 24 h, default 10 s.
    #[must_use]
    pub fn backoff_cap(mut self, cap: Duration) -> Self {
        self.waits.backoff_cap = cap;
        self
    }

    /// How many retries are allowed in all.
    #[must_use]
    pub fn budget(self, budget: BudgetPolicy) -> Self {
        Self { budget, ..self }
    }

    /// When load is shed; `None` for never.
    #[must_use]
    pub fn circuit(self, circuit: impl Into<Option<CircuitPolicy>>) -> Self {
        Self { circuit: circuit.into(), ..self }
    }

    /// Whether a hint holds back every request to the same origin (default), or only the one that was refused. Turn it
    /// off where a server limits parts of itself separately.
    #[must_use]
    pub fn hold_back(self, hold_back: bool) -> Self {
        Self { hold_back, ..self }
    }

    /// The longest time for which a hint holds back other requests: 1 ms to 24 h, default 1 h. A server that says
    /// "ten years" is asked again after this.
    #[must_use]
    pub fn max_hold(self, hold: Duration) -> Self {
        Self { max_hold: hold, ..self }
    }

    /// How many origins are remembered: 1 to 1,000,000, default 1,024. About 1 KiB each. A further one replaces the one
    /// that was used longest ago, rather one that holds nothing back.
    #[must_use]
    pub fn max_origins(self, origins: usize) -> Self {
        Self { max_origins: origins, ..self }
    }

    /// How many requests wait because their origin is held back: 0 to 1,000,000, default 1,024. Further ones are shed.
    #[must_use]
    pub fn max_held_back(self, requests: usize) -> Self {
        Self { max_held_back: requests, ..self }
    }

    /// Draws all randomness from this seed, for tests.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    pub(crate) fn check(&self) -> Result<(), BadPolicy> {
        within("max attempts", self.max_attempts, 1..=MAX_ATTEMPTS)?;
        within("jitter", self.waits.jitter, 0.1..=1.0)?;
        within("max origins", self.max_origins, 1..=MAX_ORIGINS)?;
        within("max held back", self.max_held_back, 0..=MAX_HELD_BACK)?;
        for (name, duration) in [
            ("max wait", self.max_wait),
            ("max elapsed", self.max_elapsed),
            ("min wait", self.waits.min_wait),
            ("min jitter", self.waits.min_jitter),
            ("backoff base", self.waits.backoff_base),
            ("backoff cap", self.waits.backoff_cap),
            ("max hold", self.max_hold),
        ] {
            within(name, duration, SHORTEST..=DAY)?;
        }
        self.budget.check()?;
        self.circuit.as_ref().map_or(Ok(()), CircuitPolicy::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(RetryPolicy) -> RetryPolicy;

    #[test]
    fn the_defaults_are_within_their_bounds() {
        assert_eq!(RetryPolicy::default().check(), Ok(()));
        assert_eq!(RetryPolicy::default().circuit(None).check(), Ok(()));
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let changes: [(&str, Change); 12] = [
            ("max attempts: 0 is not within 1 and 100", |policy| policy.max_attempts(0)),
            ("max wait: 0ns is not within 1ms and 86400s", |policy| policy.max_wait(Duration::ZERO)),
            ("max elapsed:", |policy| policy.max_elapsed(Duration::MAX)),
            ("jitter: 0.05 is not within 0.1 and 1.0", |policy| policy.jitter(0.05)),
            ("jitter: NaN", |policy| policy.jitter(f64::NAN)),
            ("backoff cap:", |policy| policy.backoff_cap(Duration::MAX)),
            ("max origins: 0", |policy| policy.max_origins(0)),
            ("budget share: -1.0", |policy| policy.budget(BudgetPolicy::default().share(-1.0))),
            ("budget per second:", |policy| policy.budget(BudgetPolicy::default().per_second(u32::MAX))),
            ("circuit ratio: 0.5", |policy| policy.circuit(CircuitPolicy::default().ratio(0.5))),
            ("circuit window: 0ns", |policy| policy.circuit(CircuitPolicy::default().window(Duration::ZERO))),
            ("circuit max shed: inf", |policy| {
                policy.circuit(CircuitPolicy::default().max_shed(f64::INFINITY))
            }),
        ];
        for (expected, change) in changes {
            let error = change(RetryPolicy::default()).check().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
