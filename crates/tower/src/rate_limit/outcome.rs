//! What the limits said, for handlers.

use std::sync::Arc;

use lockkeeper::Verdict;

/// In the request's extensions of every request that passed a [`RateLimitLayer`](super::RateLimitLayer): what the limits
/// said. Of several layers, the outer one's first.
///
/// ```
/// use lockkeeper_tower::rate_limit::RateLimited;
///
/// fn handler(request: &http::Request<String>) -> u64 {
///     request.extensions().get::<RateLimited>().map_or(0, RateLimited::remaining)
/// }
/// # assert_eq!(handler(&http::Request::new(String::new())), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RateLimited(Vec<Said>);

/// What one rule said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Said {
    /// The name of the rule's (first) limiter.
    pub limiter: Arc<str>,
    /// The verdict.
    pub verdict: Verdict,
    /// The rule only looks on. Such a verdict may be a refusal.
    pub is_shadow: bool,
}

impl RateLimited {
    pub(super) fn add(&mut self, said: impl IntoIterator<Item = Said>) {
        self.0.extend(said);
    }

    /// What each rule said that was asked.
    pub fn said(&self) -> &[Said] {
        &self.0
    }

    /// What a request right after this one could take, in the tightest of the limits; as far as is known.
    pub fn remaining(&self) -> u64 {
        let binding = self.0.iter().filter(|said| !said.is_shadow && !said.verdict.is_degraded());
        binding.map(|said| said.verdict.remaining()).min().unwrap_or(u64::MAX)
    }

    /// One of the limits was not checked by the store, because it is away.
    pub fn is_degraded(&self) -> bool {
        self.0.iter().any(|said| said.verdict.is_degraded())
    }
}
