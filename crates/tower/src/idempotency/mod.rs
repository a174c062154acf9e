//! The server's half of retries: a layer that runs a request once per idempotency key, and replays its answer.
//!
//! A client that got no answer does not know whether its order was placed. It sends the request again with the same
//! `Idempotency-Key`, and gets the answer of the first one instead of a second order.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::{BodyExt, Full};
//! use lockkeeper::{Keeper, Subject};
//! use lockkeeper_tower::idempotency::{IdempotencyBody, IdempotencyLayer};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[derive(Clone)] struct Account(&'static str);
//! let keeper = Keeper::connect("memory://").await?; // or redis://127.0.0.1:6379
//! let layer = IdempotencyLayer::builder(keeper.once("orders")?)
//!     .scope_by(|request| Some(Subject::user(request.extensions.get::<Account>()?.0))) // whose key it is
//!     .build()?;
//!
//! // Around any service; with axum, `Router::new().route(…).layer(layer)`.
//! static ORDERS: AtomicUsize = AtomicUsize::new(0);
//! let service = layer.layer(service_fn(|_: Request<IdempotencyBody<Full<Bytes>>>| async {
//!     let order = ORDERS.fetch_add(1, Ordering::SeqCst) + 1;
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::from(format!("order {order}"))))
//! }));
//!
//! for _ in 0..2 {
//!     let mut request = Request::post("/orders").header("idempotency-key", "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"");
//!     request.extensions_mut().unwrap().insert(Account("42")); // done by an outer layer
//!     let answer = service.clone().oneshot(request.body(Full::from("{}"))?).await?;
//!     assert_eq!(answer.into_body().collect().await?.to_bytes(), "order 1");
//! }
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # What it promises
//!
//! While a key's record lives, at most one attempt at a time runs, and after it has ended, nobody runs it again. That is
//! not "exactly once": an attempt whose process died may have had its effect, and a store can lose a record. The last line
//! is the database: a unique index, for which [`Claim::key`] is good, and an update that refuses an older [`Claim::fence`].
//!
//! # Which requests
//!
//! POST and PATCH, unless set otherwise, with the header `Idempotency-Key`: a structured field's string (`"8e03978e"`) or
//! bare (`8e03978e`), which is the same key; 1 to 255 printable characters. Without one, the request is refused; with
//! [`optional`](IdempotencyBuilder::optional), it passes as if there were no layer.
//!
//! The record is that of the caller ([`scope`](IdempotencyBuilder::scope)), the method, path and query as they were sent,
//! and the client's key. A layer that was not told whose keys they are cannot be built, because then anybody could be
//! answered somebody else's answer. On the server the record's name is a SHA-256 digest of all that, so nothing of a
//! credential can be read there; a caller or a key that can be guessed can be found by guessing. Where several hosts are
//! served with one store, give each a name of its own in [`Keeper::once`](lockkeeper::Keeper::once), or make the host part
//! of the scope.
//!
//! The body says whether it is the same request: JSON by what it says (the order of members and the form of numbers do not
//! count, the order of elements does), everything else byte by byte; with it the media type, without its parameters. JSON
//! that is not valid, or has a member twice, is refused. [`compare_bytes`](IdempotencyBuilder::compare_bytes) and
//! [`compare_by`](IdempotencyBuilder::compare_by) change that: say, for forms with a random boundary.
//!
//! # What is answered
//!
//! | The record says | Answer | |
//! |---|---|---|
//! | nothing yet | that of the service within | `Idempotency-Retention` if it was kept |
//! | done | that of the first time | `Idempotent-Replayed: true`, `Idempotency-Retention` |
//! | done, body not kept | that status, with problem details for a body | the same |
//! | running | 409, or after [`wait`](IdempotencyBuilder::wait) one of the others | `Retry-After`, at most the lease that is left |
//! | a different request | 422 | |
//! | cut off, and held ([`OnCrash::Hold`](lockkeeper::OnCrash::Hold)) | 409 | no `Retry-After`: somebody has to look |
//! | the store does not answer | 503, or with [`fail_open`](IdempotencyBuilder::fail_open) that of the service within | `Retry-After: 1` |
//! | the claim was lost while it ran | 503 | `Retry-After: 1` |
//!
//! Refusals have problem details (RFC 9457) whose types are explained in `docs/problems.md`. No answer says anything of
//! another caller. `Idempotency-Retention` says for how many seconds the key is still remembered; a replay does not lengthen
//! that, and a request that comes later runs afresh.
//!
//! # What is kept
//!
//! - **Which answers**: all but 5xx, 408, 425 and 429, which say that nothing was done: the key is open again. See
//!   [`store_if`](IdempotencyBuilder::store_if). A handler that answers 500 after an effect breaks that promise: it decides
//!   with an [`Outcome`] in its response's extensions, or the route with [`outcome_by`](IdempotencyBuilder::outcome_by).
//! - **Of an answer**: status, body and trailers byte by byte, and these headers: `Allow`, `Cache-Control`,
//!   `Content-Disposition`, `-Encoding`, `-Language`, `-Location`, `-Type`, `ETag`, `Last-Modified`, `Link`, `Location`,
//!   `Preference-Applied`, `Trailer`, `Vary`, and those of [`replay_headers`](IdempotencyBuilder::replay_headers). Never
//!   `Set-Cookie`, `Date`, request ids, and what limits said. What layers outside of this one add, such as CORS, is added to
//!   replays by them.
//! - **When**: before the answer is sent, so that a client that has it finds it again. Up to
//!   [`max_answer`](IdempotencyBuilder::max_answer) of a body is read for that.
//! - **A larger body**, `text/event-stream`, and what a handler marks with [`Outcome::HeadKept`] pass without being read
//!   any further. The record says by then that it is done; a retry gets the status, and no second run. If such a body breaks
//!   off, the operation still counts as done.
//! - **A smaller body that breaks off**, a panic, and an error of the service within: the attempt crashed, and
//!   [`Once::on_crash`](lockkeeper::Once::on_crash) says what becomes of the key.
//!
//! # The handler
//!
//! It runs on a task of its own: a client that hangs up does not cut it off, and its answer is kept. It has the caller's span,
//! but none of its task-locals. Its request has a [`Claim`] in its extensions; when the lease is lost, that says so, the
//! handler goes on, and its answer is not kept.
//!
//! The layer goes outside of what has an effect and inside of what finds out who asks, of limits, and of time-outs (which
//! then end the wait of the client, not the work). One request keeps at most
//! [`max_request`](IdempotencyBuilder::max_request) and `max_answer` bytes in memory. How long a client may take to send its
//! body is the server's business.
//!
//! **Redis:** two round trips for a request that runs, one for a replay.

mod answer;
mod body;
mod builder;
mod claim;
mod client_key;
mod collect;
mod detached;
mod fingerprint;
mod future;
mod layer;
mod outcome;
mod plan;
mod protect;
mod record_key;
mod refusal;
mod replayed;
mod run;
mod service;
mod settings;

pub use answer::{KeptAnswer, MAX_HEAD_BYTES};
pub use body::IdempotencyBody;
pub use builder::{
    DEFAULT_KEEP_WITHIN, DEFAULT_MAX_ANSWER, DEFAULT_MAX_REQUEST, IdempotencyBuilder, MAX_ANSWER,
};
pub use claim::Claim;
pub use client_key::{IDEMPOTENCY_KEY, MAX_KEY_CHARS};
pub use future::ResponseFuture;
pub use layer::IdempotencyLayer;
pub use outcome::Outcome;
pub use refusal::{Refusal, RefusalKind};
pub use replayed::{IDEMPOTENCY_RETENTION, IDEMPOTENT_REPLAYED};
pub use service::Idempotency;

pub use crate::caller::{PeerAddress, Who};
