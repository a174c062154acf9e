//! The server's half: a layer that refuses requests over their limits, and tells clients how they stand.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use http::{Request, Response, StatusCode};
//! use lockkeeper::Keeper;
//! use lockkeeper_tower::ClientAddress;
//! use lockkeeper_tower::rate_limit::{PeerAddress, RateLimitLayer, Rule, Who};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! let keeper = Keeper::connect("memory://").await?; // or redis://127.0.0.1:6379
//! let per_client = Rule::new(keeper.limiter("api", "5/10s")?, Who::address(ClientAddress::peer()));
//! let layer = RateLimitLayer::new([per_client])?
//!     .skip(|request| request.uri.path() == "/health")
//!     .jitter(Duration::from_secs(2));
//!
//! // Around any service; with axum, `Router::new().route(…).layer(layer)`.
//! let service = layer.layer(service_fn(|_: Request<String>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new("done".to_owned()))
//! }));
//!
//! let request = || {
//!     let mut request = Request::new(String::new());
//!     request.extensions_mut().insert(PeerAddress(([192, 0, 2, 1], 4711).into())); // done by the server
//!     request
//! };
//! for _ in 0..5 {
//!     let answer = service.clone().oneshot(request()).await?;
//!     assert_eq!(answer.headers()["ratelimit-policy"], "\"api\";q=5;w=10");
//! }
//! let refused = service.oneshot(request()).await?;
//! assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
//! assert!(refused.headers().contains_key("retry-after"));
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # What is counted
//!
//! Each [`Rule`] has a limiter and says [who](Who) is counted. The count's subject is who, *and* the route: the method
//! and the pattern that matched (`GET /users/{id}`), never the path, of which a client can invent as many as it likes.
//! HEAD counts as GET. Where no pattern is known, all paths are `unmatched` together. [`Who::over_all_routes`] leaves the
//! route out. For other limits on some routes, put another layer on those.
//!
//! Under axum the pattern is known inside of the router, so the layer goes onto it with `Router::layer` or
//! `route_layer`, not around it. That needs the feature `axum`; other routers say it with [`RoutePattern`] or
//! [`RateLimitLayer::route_by`].
//!
//! # Several rules
//!
//! They are asked one after another, up to the first that refuses. What the earlier ones took is then given back before
//! the refusal is answered, one round trip more. No limit is ever exceeded; but between taking and giving back, and for
//! good where giving back fails or the client goes away meanwhile, an earlier limit may refuse others by that much. For
//! all or nothing in one step, use [`Rule::joint`], or one limiter with several limits.
//!
//! # What is answered
//!
//! | What the limits say | Answer | `Retry-After` |
//! |---|---|---|
//! | yes | that of the service within | |
//! | not now | 429 | seconds, rounded up, never 0 |
//! | never: it costs more than a limit can hold, or the limit is `none` | 403 | none: waiting does not help |
//! | the store is away, and this process's [share](lockkeeper::WhenAway::Share) is used up | 503 | as the share says |
//! | the store is away, and the limiter refuses then; or a mistake | 503 | 1 |
//!
//! A refusal's body are problem details (RFC 9457), with the types `quota-exceeded` and `temporary-reduced-capacity` of
//! draft-ietf-httpapi-ratelimit-headers. [`RateLimitLayer::respond_with`] changes that. No answer names who was counted.
//!
//! # Fields on every answer
//!
//! ```text
//! ratelimit-policy: "search-1";q=2;w=1, "search-2";q=20;w=60
//! ratelimit: "search-1";r=1;t=1, "search-2";r=19;t=3
//! ```
//!
//! - One item for each limit of the rules that were asked. Of a refusal, `RateLimit` has those of the rule that refused.
//! - `q`: the most that can be taken at once. `w`: the window, for a token bucket the time in which it fills; rounded up,
//!   so a window of less than a second is shown as one second, which promises too little rather than too much.
//! - `r`: what can be taken now. `t`: when everything is there again; of a limit that refused, when the same request
//!   would pass.
//! - Where the store is away, there is no `RateLimit`: nobody knows its numbers. `RateLimit-Policy` stays.
//! - Shadow rules are not shown.
//!
//! [`RateLimitHeaders`] adds the older `X-RateLimit-*` fields, or leaves all out. Fields that the service within set stay:
//! lists are added to, the older fields are not overwritten.
//!
//! # Where it goes
//!
//! Outside of what costs something, inside of what finds out who asks. While the limits are asked, the service within is
//! ready and waits: a limit on concurrency counts the request already. Handlers find what was said in [`RateLimited`].
//!
//! **Cancel safety:** dropped before the limits answered, the service within is not called, and what was asked of the
//! store is charged. **Redis:** as [`Limiter::check`](lockkeeper::Limiter::check), once for each rule that is asked.

mod decide;
mod future;
mod headers;
mod jitter;
mod layer;
mod outcome;
mod policy;
mod problem;
mod refusal;
mod route;
mod rule;
mod service;

pub use future::ResponseFuture;
pub use headers::RateLimitHeaders;
pub use layer::{MAX_JITTER, RateLimitLayer};
pub use outcome::{RateLimited, Said};
pub use policy::MAX_POLICY_NAME;
pub use refusal::{ProblemDetails, Refusal, RefusalKind, Respond};
pub use route::RoutePattern;
pub use rule::Rule;
pub use service::RateLimit;

pub use crate::caller::{PeerAddress, Who};
