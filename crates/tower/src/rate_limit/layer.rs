//! The layer, and what can be set.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use lockkeeper::Error;
use tower_layer::Layer;

use super::headers::RateLimitHeaders;
use super::jitter::Jitter;
use super::policy::refuse;
use super::refusal::ProblemDetails;
use super::route::FindRoute;
use super::rule::{Rule, Skip};
use super::service::RateLimit;

/// Refuses requests over their limits before they reach the service, and tells clients how they stand. See [the
/// module](super) for what it does, and [`Rule`] for what is limited.
#[derive(Clone)]
pub struct RateLimitLayer<W = ProblemDetails> {
    settings: Arc<Settings>,
    respond: W,
}

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) rules: Vec<Rule>,
    pub(super) skip: Option<Arc<Skip>>,
    pub(super) route: Option<Arc<FindRoute>>,
    pub(super) headers: RateLimitHeaders,
    pub(super) jitter: Jitter,
}

/// The longest time by which [`RateLimitLayer::jitter`] lengthens waits.
pub const MAX_JITTER: Duration = Duration::from_secs(3600);

impl RateLimitLayer {
    /// Requests pass all of `rules`, which are asked in this order. Put first what refuses most often.
    ///
    /// # Errors
    /// No rule; two policies with one name, which [`Rule::named`] can change; a name that is not valid; a joint rule with
    /// more or fewer subjects than limiters.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, Error> {
        let rules: Vec<Rule> = rules.into_iter().map(Rule::prepared).collect::<Result<_, _>>()?;
        if rules.is_empty() {
            return Err(refuse("no rule is given"));
        }
        let names: Vec<_> = rules.iter().flat_map(|rule| &rule.policies).map(|policy| &policy.name).collect();
        if let Some((_, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            let detail = format!("two policies are called `{name}`; tell them apart with `Rule::named`");
            return Err(refuse(detail));
        }
        let settings = Settings {
            rules,
            skip: None,
            route: None,
            headers: RateLimitHeaders::default(),
            jitter: Jitter::default(),
        };
        Ok(Self { settings: Arc::new(settings), respond: ProblemDetails })
    }
}

impl<W> RateLimitLayer<W> {
    /// Requests for which this is true pass without being counted, such as health checks. A rule can skip
    /// [by itself](Rule::skip), too.
    #[must_use]
    pub fn skip(self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.skip = Some(Arc::new(skip)))
    }

    /// How a route's pattern is found, for routers other than axum's. `None`: no route matches. Never the path itself,
    /// of which a client can invent as many as it likes.
    ///
    /// Unless it is said, it is [`RoutePattern`](super::RoutePattern) in the request's extensions, and with the feature
    /// `axum` its `MatchedPath`.
    #[must_use]
    pub fn route_by(self, find: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.route = Some(Arc::new(find)))
    }

    /// Which fields answers carry.
    #[must_use]
    pub fn headers(self, headers: RateLimitHeaders) -> Self {
        self.with(|settings| settings.headers = headers)
    }

    /// Lengthens the waits that clients are told (`Retry-After`, `t`, the older `Reset`) by anything up to `most` (at most
    /// [`MAX_JITTER`]), so that those of one window do not all come back in the moment the next one begins. None unless
    /// it is said. Waits are never shortened.
    #[must_use]
    pub fn jitter(self, most: Duration) -> Self {
        self.with(|settings| settings.jitter = Jitter(most.min(MAX_JITTER)))
    }

    /// Every rule only looks on, as [`Rule::shadow`] says.
    #[must_use]
    pub fn shadow(self) -> Self {
        self.with(|settings| settings.rules = settings.rules.drain(..).map(Rule::shadow).collect())
    }

    /// How refusals are answered, instead of with [`ProblemDetails`].
    ///
    /// ```
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// use http::Response;
    /// use lockkeeper_tower::rate_limit::{RateLimitLayer, Refusal, Rule, Who};
    ///
    /// # let keeper = lockkeeper::Keeper::connect("memory://").await?;
    /// let layer = RateLimitLayer::new([Rule::new(keeper.limiter("all", "100/s")?, Who::everyone())])?
    ///     .respond_with(|refusal: &Refusal| {
    ///         let mut response = Response::new(format!("no: {:?}", refusal.kind()));
    ///         *response.status_mut() = refusal.status();
    ///         response
    ///     });
    /// # let _ = layer;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    #[must_use]
    pub fn respond_with<V>(self, respond: V) -> RateLimitLayer<V> {
        RateLimitLayer { settings: self.settings, respond }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl<S, W: Clone> Layer<S> for RateLimitLayer<W> {
    type Service = RateLimit<S, W>;

    fn layer(&self, inner: S) -> RateLimit<S, W> {
        RateLimit::new(inner, self.settings.clone(), self.respond.clone())
    }
}

impl<W> fmt::Debug for RateLimitLayer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("rules", &self.rules)
            .field("headers", &self.headers)
            .field("jitter", &self.jitter.0)
            .finish_non_exhaustive()
    }
}
