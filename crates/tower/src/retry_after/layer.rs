//! The layer: settings, and what all services made by it share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;
use tower_layer::Layer;

use super::bad_policy::BadPolicy;
use super::budget::Budget;
use super::message::Cloned;
use super::origins::Origins;
use super::policy::RetryPolicy;
use super::service::RetryAfter;
use super::statistics::Statistics;

/// Makes a client keep away as long as it was told; see the [module](super).
///
/// Its clones, and the services they make, share one budget, one memory of origins and one set of counters.
#[derive(Clone)]
pub struct RetryAfterLayer<C = Cloned> {
    shared: Arc<Shared>,
    cloner: C,
}

/// What clones share.
pub(crate) struct Shared {
    pub(crate) policy: RetryPolicy,
    pub(crate) budget: Budget,
    pub(crate) origins: Origins,
    /// Requests that wait for a hold to end.
    pub(crate) held_back: AtomicUsize,
    pub(crate) statistics: Statistics,
    rng: Mutex<SmallRng>,
}

impl RetryAfterLayer {
    /// A layer with these settings. It copies requests that are [`Clone`], and those of `reqwest`; see
    /// [`clone_request_with`](Self::clone_request_with) for others.
    ///
    /// # Errors
    /// Names the first setting that is outside its bounds.
    pub fn new(policy: RetryPolicy) -> Result<Self, BadPolicy> {
        policy.check()?;
        Ok(Self::checked(policy))
    }

    fn checked(policy: RetryPolicy) -> Self {
        Self { shared: Arc::new(Shared::new(policy)), cloner: Cloned }
    }
}

impl Default for RetryAfterLayer {
    fn default() -> Self {
        Self::checked(RetryPolicy::default())
    }
}

impl<C> RetryAfterLayer<C> {
    /// Copies requests by other means; see [`CloneRequest`](super::CloneRequest). For example, only those without a
    /// body:
    ///
    /// ```
    /// use axum::body::{Body, HttpBody};
    /// use http::Request;
    /// use lockkeeper_tower::RetryAfterLayer;
    ///
    /// fn without_body(request: &Request<Body>) -> Option<Request<Body>> {
    ///     let mut copy = Request::new(Body::empty());
    ///     *copy.method_mut() = request.method().clone();
    ///     *copy.uri_mut() = request.uri().clone();
    ///     *copy.headers_mut() = request.headers().clone();
    ///     request.body().is_end_stream().then_some(copy)
    /// }
    ///
    /// let layer = RetryAfterLayer::default().clone_request_with(without_body);
    /// ```
    #[must_use]
    pub fn clone_request_with<D>(self, cloner: D) -> RetryAfterLayer<D> {
        RetryAfterLayer { shared: self.shared, cloner }
    }

    /// The counters; may be kept and read at any time.
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics.clone()
    }
}

impl<S, C: Clone> Layer<S> for RetryAfterLayer<C> {
    type Service = RetryAfter<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        RetryAfter::new(inner, self.shared.clone(), self.cloner.clone())
    }
}

impl<C> fmt::Debug for RetryAfterLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryAfterLayer").field("policy", &self.shared.policy).finish_non_exhaustive()
    }
}

impl Shared {
    fn new(policy: RetryPolicy) -> Self {
        let now = Instant::now();
        Self {
            budget: Budget::new(policy.budget.clone(), now),
            origins: Origins::new(policy.max_origins, policy.circuit.clone(), now),
            held_back: AtomicUsize::new(0),
            statistics: Statistics::default(),
            rng: Mutex::new(policy.seed.map_or_else(rand::make_rng, SmallRng::seed_from_u64)),
            policy,
        }
    }

    /// From zero to just below one.
    pub(crate) fn lot(&self) -> f64 {
        self.rng.lock().random()
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut SmallRng) -> T) -> T {
        draw(&mut self.rng.lock())
    }
}
