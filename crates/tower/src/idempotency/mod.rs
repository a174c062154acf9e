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
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(format!("order {order}")))))
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
//! is the database: a unique index, for which see [`Claim::key`], and an update that refuses an older [`Claim::fence`].
//!
//! # Which requests
//!
//! POST and PATCH, unless set otherwise, with the header `Idempotency-Key`: a structured field's string (`"8e03978e"`) or
//! bare (`8e03978e`), which is the same key; 1 to 255 printable characters. Without one, the request is refused; with
//! [`optional`](IdempotencyBuilder::optional), it passes as if there were no layer.
//!
//! The record is that of the caller ([`scope`](IdempotencyBuilder::scope)), the method, path and query as they were sent,
//! and the client's key. **With axum, switch on the feature `axum`**: without it, routers that are nested (`nest`) show the layer a
//! shortened path, so that `/a/items` and `/b/items` share their records and are answered each other's answers. Where something
//! else shortens it, [`target_by`](IdempotencyBuilder::target_by) says what was asked for. A layer that was not told whose keys they are cannot be built, because then anybody could be
//! answered somebody else's answer. On the server the record's name is a SHA-256 digest of all that, so nothing of a
//! credential can be read there; a caller or a key that can be guessed can be found by guessing. Where several hosts are
//! served with one store, give each a name of its own in [`Keeper::once`](lockkeeper::Keeper::once), or make the host part
//! of the scope.
//!
//! The body says whether it is the same request: JSON by what it says (the order of members does not count, that
//! of elements does, and numbers are equal when their exact values are), everything else byte by byte; with it the media type, without its parameters. JSON
//! that is not valid, or has a member twice, is refused. [`compare_bytes`](IdempotencyBuilder::compare_bytes) and
//! [`compare_by`](IdempotencyBuilder::compare_by) change that: say, for forms with a random boundary.
//!
//! gRPC is not supported: its failures are answers with status 200, and would be kept.
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
//! | cut off, and held ([`OnCrash::Hold`](lockkeeper::OnCrash::Hold)) | 409, which says for how long | no `Retry-After`: somebody has to look |
//! | the store does not answer | 503, or with [`fail_open`](IdempotencyBuilder::fail_open) that of the service within | `Retry-After: 1` |
//! | something that is no record | 500, also with `fail_open` | no `Retry-After` |
//!
//! When it ends:
//!
//! | The service within has answered, and | Answer | |
//! |---|---|---|
//! | that is recorded | that one | `Idempotency-Retention` |
//! | the store does not answer for 10 s | that one; recording it is tried for a minute more | nothing is promised |
//! | the store refuses it for good | that one; the claim is left to its lease | nothing is promised |
//! | the claim was taken over meanwhile | 409: the other attempt's answer counts | no `Retry-After`: its effect is there |
//! | the record is gone (flushed, evicted) | 409: carried out, and nothing protects against a second time | no `Retry-After` |
//! | (the runtime ended before) | 503: whether it had its effect is not known | `Retry-After: 1` |
//!
//! Refusals have problem details (RFC 9457) whose types are explained in `docs/problems.md`. No answer says anything of
//! another caller. `Idempotency-Retention` says for how many seconds the key is still remembered; a replay does not lengthen
//! that, and a request that comes later runs afresh.
//!
//! # What is kept
//!
//! - **Which answers**: all but 5xx, 401, 407, 408, 425 and 429, which say that nothing was done: the key is open again. See
//!   [`store_if`](IdempotencyBuilder::store_if). A handler that answers 500 after an effect breaks that promise: it decides
//!   with an [`Outcome`] in its response's extensions, or the route with [`outcome_by`](IdempotencyBuilder::outcome_by). Under
//!   the policy [`OnCrash::Hold`](lockkeeper::OnCrash::Hold), 5xx other than 503 count as a crash, and are held.
//! - **Of an answer**: status, body and trailers byte by byte, and these headers: `Allow`, `Cache-Control`,
//!   `Content-Disposition`, `-Encoding`, `-Language`, `-Location`, `-Type`, `ETag`, `Last-Modified`, `Link`, `Location`,
//!   `Preference-Applied`, `Trailer`, `Vary`, and those of [`replay_headers`](IdempotencyBuilder::replay_headers). Never
//!   `Set-Cookie`, `Date`, request ids, and what limits said. What layers outside of this one add, such as CORS, is added to
//!   replays by them.
//! - **When**: before the answer is sent, so that a client that has it finds it again, unless the store is away by then (see
//!   above): `Idempotency-Retention` says that it is so. Up to [`max_answer`](IdempotencyBuilder::max_answer) of a body is read
//!   for that, for at most [`keep_within`](IdempotencyBuilder::keep_within).
//! - **Where**: on the server, as it is, not encrypted, for the whole retention, also what says `Cache-Control: no-store`. An answer
//!   that must not rest there (a secret that is shown once, say) is marked with [`Outcome::HeadKept`].
//! - **A larger body**, one that takes longer, `text/event-stream`, and what a handler marks with [`Outcome::HeadKept`] pass without being read
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
//! The layer goes outside of what has an effect and inside of what finds out who asks, of rate limits, and of time-outs (which
//! then end the wait of the client, not the work). **What bounds how many run at once (`ConcurrencyLimit`, load shedding) goes
//! inside**: further out it takes a client that hung up for one that is served, while its handler goes on, and any number of
//! hang-ups leaves any number of handlers. Who ends the process waits for them with [`IdempotencyLayer::drained`].
//!
//! The service within is made ready before the request's body is read, as `tower` demands of who calls it, and stays so until the
//! body is there: what its readiness holds (a permit of a `ConcurrencyLimit`, not in axum, which makes a route ready later), a slow
//! upload holds, too. How long a client may take for it is the server's business: bound it there.
//!
//! In memory, one request has up to twice [`max_request`](IdempotencyBuilder::max_request), JSON a few times more while it is
//! compared, and up to five times `max_answer` while its answer is recorded: what was read (with room to grow), what is kept, and two
//! copies on the way to the server.
//!
//! **Redis:** two round trips for a request that runs, three where its claim was lost meanwhile, one for a replay.

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
mod refusal_kind;
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
pub use refusal::Refusal;
pub use refusal_kind::RefusalKind;
pub use replayed::{IDEMPOTENCY_RETENTION, IDEMPOTENT_REPLAYED};
pub use service::Idempotency;

pub use crate::caller::{PeerAddress, Who};
