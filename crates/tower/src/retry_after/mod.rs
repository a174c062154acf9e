//! A layer for HTTP clients that stays away as long as it was told, and gives up in good time.
//!
//! A server that is full says when to come back. Clients that return earlier are refused again and keep the server
//! full; clients that all return at that very moment do the same. [`RetryAfterLayer`] goes around a client and sees to
//! it that neither happens:
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use http::{Request, Response, StatusCode};
//! use lockkeeper_tower::RetryAfterLayer;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), lockkeeper_tower::retry_after::BoxError> {
//! // A server that refuses the first request. `hyper_util::client::legacy::Client` goes in the same place.
//! static ASKED: AtomicU32 = AtomicU32::new(0);
//! let server = service_fn(|_: Request<String>| async {
//!     if ASKED.fetch_add(1, Ordering::Relaxed) == 0 {
//!         let refusal = Response::builder().status(StatusCode::TOO_MANY_REQUESTS).header("retry-after", "2");
//!         return refusal.body("not now");
//!     }
//!     Ok(Response::new("done"))
//! });
//!
//! let layer = RetryAfterLayer::default();
//! let client = layer.layer(server);
//! let begun = tokio::time::Instant::now();
//! let answer = client.oneshot(Request::post("http://example.com/work").body("order 7".to_owned())?).await?;
//!
//! assert_eq!(*answer.body(), "done");
//! assert!(begun.elapsed().as_secs() >= 2);
//! assert_eq!(layer.statistics().read().retries, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # What happens to an answer
//!
//! | Answer | Sent again | After |
//! |---|---|---|
//! | 429 | always | the hint, or back-off |
//! | 503 with `Retry-After` | always | the hint |
//! | 503 without | idempotent methods | the `RateLimit` field's `t`, or back-off |
//! | the client below failed | idempotent methods | back-off |
//! | everything else | never | |
//!
//! Whatever is not sent again is passed on as it came, header fields and body untouched. That is so too when the
//! request cannot be copied, the attempts or the time are used up, the hint is too long, the budget is empty, or the
//! circuit sheds the retry.
//!
//! **The hint** is `Retry-After`, in seconds or as a date, or else the `t` of the IETF `RateLimit` field. A retry is never
//! sent earlier; jitter only adds, up to a quarter of the wait. Of several values the latest counts. A date is measured
//! by the `Date` of the same answer, so clocks need not agree; without one, by the wall clock of this machine. A hint
//! that cannot be read is none. One of zero means a tenth of a second.
//!
//! **Back-off** has full jitter: anything from zero to 100 ms, 200 ms, 400 ms, and so on to 10 s.
//!
//! **Others wait too.** After a hint, all requests to the same scheme, host and port wait, each with its own jitter. A
//! request that would wait too long ends at once with the error [`Shed`], and is not sent. This needs one layer whose
//! clones are used everywhere; every new layer knows nothing.
//!
//! **The budget** ([`BudgetPolicy`]) keeps retries to a fifth of the requests and one per second.
//!
//! **The circuit** ([`CircuitPolicy`]) sends less to an origin that accepted less than half of the requests of the last
//! two minutes. What it sheds ends with [`Shed`] too: an error and no made-up 503, because no server said that.
//!
//! Every number is a setting of [`RetryPolicy`].
//!
//! # Where it goes
//!
//! - Time-outs of one attempt go *below* it, so that the circuit sees them; of the whole call, above it.
//! - It is always ready, and waits for the client below attempt by attempt: limits on concurrency go above it.
//! - While it waits it keeps a copy of the request and no connection.
//! - It needs tokio's timer, and is used within a tokio runtime.
//!
//! **Errors** are boxed, as everywhere in tower: those of the client below as they came, and [`Shed`]. **Cancel safety:** a call that is dropped sends
//! nothing more; what an attempt under way did is unknown. **Redis:** none.
//!
//! # With `reqwest`
//!
//! With the feature `reqwest`, a `reqwest::Client` goes below as it is. Requests with a streaming body are sent once.
//! Redirects are followed by `reqwest` itself: what the last server says is held against the first.
//!
#![cfg_attr(feature = "reqwest", doc = "```no_run")]
#![cfg_attr(not(feature = "reqwest"), doc = "```ignore")]
//! use lockkeeper_tower::RetryAfterLayer;
//! use tower::{Layer, ServiceExt};
//!
//! # async fn example() -> Result<(), lockkeeper_tower::retry_after::BoxError> {
//! let client = RetryAfterLayer::default().layer(reqwest::Client::new());
//! let request = reqwest::Request::new(reqwest::Method::GET, "http://example.com/".parse()?);
//! println!("{}", client.oneshot(request).await?.text().await?);
//! # Ok(())
//! # }
//! ```
//!
//! # With another client
//!
//! Implement [`Retryable`] for its requests and [`Answered`] for its answers, and say how a request is copied:
//! [`RetryAfterLayer::clone_request_with`].

mod backoff;
mod bad_policy;
mod budget;
mod call;
mod circuit;
mod error;
#[cfg(feature = "reqwest")]
mod for_reqwest;
mod future;
mod held_back;
mod hint;
mod layer;
mod message;
mod origins;
mod policy;
mod service;
mod statistics;

pub use bad_policy::BadPolicy;
pub use budget::BudgetPolicy;
pub use circuit::CircuitPolicy;
pub use error::{BoxError, Shed, ShedReason};
pub use future::ResponseFuture;
pub use layer::RetryAfterLayer;
pub use message::{Answered, CloneRequest, Cloned, Origin, Retryable};
pub use policy::RetryPolicy;
pub use service::RetryAfter;
pub use statistics::{Counts, Statistics};
