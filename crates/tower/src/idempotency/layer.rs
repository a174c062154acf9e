//! The layer.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use lockkeeper::Once;
use tower_layer::Layer;

use super::builder::IdempotencyBuilder;
use super::plan;
use super::service::Idempotency;
use super::settings::Settings;

/// Runs a request once per idempotency key, and replays its answer. See [the module](super) for what it does, and
/// [`IdempotencyBuilder`] for what can be set.
#[derive(Clone)]
pub struct IdempotencyLayer {
    settings: Arc<Settings>,
}

impl IdempotencyLayer {
    /// A layer whose records are those of `once`, with its retention, its lease and its policy for crashes.
    ///
    /// Two layers with one name share their records; keys are kept apart by caller, method and path all the same.
    pub fn builder(once: Once) -> IdempotencyBuilder {
        IdempotencyBuilder::new(once)
    }

    pub(super) fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings) }
    }

    /// The key of this request's record, as [`Once::inspect`] and [`Once::resolve`] take it: for operators. `None` where
    /// the request would not be looked up.
    pub fn record_key(&self, request: &Parts) -> Option<String> {
        match plan::of(&self.settings, request) {
            plan::Plan::Protect { key } => Some(key),
            plan::Plan::Pass | plan::Plan::Refuse(_) => None,
        }
    }

    /// Waits until no request runs under a key, of all services that this layer made, also of clients that have hung up. For
    /// the end of a process: stop the server first, then wait for this as long as you can, then close the keeper
    /// ([`Keeper::close`](lockkeeper::Keeper::close)), which waits for what is still to be recorded. What runs when the
    /// runtime ends is cut off, and counts as crashed.
    ///
    /// **Cancel safety:** nothing is left behind.
    pub async fn drained(&self) {
        self.settings.detached.none().await;
    }

    /// How many requests were run without protection, because the store was away, since the layer was made. See
    /// [`IdempotencyBuilder::fail_open`].
    pub fn unprotected_runs(&self) -> u64 {
        self.settings.notices.unprotected.count()
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency::new(inner, self.settings.clone())
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}
