//! What the tests share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use lockkeeper::{Keeper, ManualClock, Once};
use lockkeeper_tower::IdempotencyLayer;
use lockkeeper_tower::idempotency::{IdempotencyBuilder, Who};
use serde_json::Value;
use tower::ServiceExt as _;

pub(crate) const LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A memory keeper on a clock that stands at the beginning of an hour.
pub(crate) async fn stepped() -> (Keeper, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Keeper::builder().clock(clock.clone()).connect().await.unwrap(), clock)
}

pub(crate) async fn memory() -> Keeper {
    Keeper::connect("memory://").await.unwrap()
}

/// A Redis where nobody listens.
pub(crate) async fn away() -> Keeper {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("redis://127.0.0.1:{port}");
    Keeper::builder().url(&url).unwrap().lazy().connect().await.unwrap()
}

pub(crate) fn orders(keeper: &Keeper) -> Once {
    keeper.once("orders").unwrap()
}

/// Keys belong to whom the header `x-user` names.
pub(crate) fn builder(once: Once) -> IdempotencyBuilder {
    let user = Who::secret_header("user", HeaderName::from_static("x-user")).unwrap();
    IdempotencyLayer::builder(once).scope(user)
}

/// How often a handler ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    /// One more; which it is.
    pub(crate) fn begin(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// All paths and methods go to `handler`, which is told which run it is.
pub(crate) fn app<F, Fut, R>(builder: IdempotencyBuilder, handler: F) -> (Router, Runs)
where
    F: Fn(usize, Request) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = R> + Send,
    R: IntoResponse,
{
    let runs = Runs::default();
    let counting = runs.clone();
    let route = any(move |request: Request| handler(counting.begin(), request));
    let router = Router::new().fallback_service(route.layer(builder.build().unwrap()));
    (router, runs)
}

/// Each run answers `run 1`, `run 2`, ….
pub(crate) fn numbered(builder: IdempotencyBuilder) -> (Router, Runs) {
    app(builder, |run, _| async move { format!("run {run}") })
}

/// `POST /orders` of user `a`.
pub(crate) fn post(key: &str, body: impl Into<Body>) -> Request {
    let request = Request::post("/orders").header("x-user", "a").header("idempotency-key", key);
    request.header("content-type", "text/plain").body(body.into()).unwrap()
}

pub(crate) fn with(mut request: Request, name: &'static str, value: &str) -> Request {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

pub(crate) fn json(key: &str, body: impl Into<Body>) -> Request {
    with(post(key, body), "content-type", "application/json")
}

/// An answer with its whole body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Answer {
    pub(crate) fn is_replay(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn problem(&self) -> Value {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The last part of the problem's type.
    pub(crate) fn problem_type(&self) -> String {
        let problem = self.problem();
        assert_eq!(problem["status"], self.status.as_u16());
        problem["type"].as_str().unwrap().split_once('#').unwrap().1.to_owned()
    }

    pub(crate) fn status(&self) -> u16 {
        self.status.as_u16()
    }
}

pub(crate) async fn read(response: Response<Body>) -> Answer {
    let (head, body) = response.into_parts();
    let collected = body.collect().await.unwrap();
    let trailers = collected.trailers().cloned();
    Answer { status: head.status, headers: head.headers, body: collected.to_bytes(), trailers }
}

/// The head of the answer; its body is not read.
pub(crate) async fn head(router: &Router, request: Request) -> Response<Body> {
    router.clone().oneshot(request).await.unwrap()
}

pub(crate) async fn send(router: &Router, request: Request) -> Answer {
    read(head(router, request).await).await
}

/// So many pieces of so many bytes, without a length; says how many of them were asked for.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) left: usize,
    pub(crate) size: usize,
    pub(crate) given: Arc<AtomicUsize>,
    /// Instead of the end.
    pub(crate) breaks: bool,
}

pub(crate) fn pieces(left: usize, size: usize) -> (Pieces, Arc<AtomicUsize>) {
    let given = Arc::new(AtomicUsize::new(0));
    (Pieces { left, size, given: given.clone(), breaks: false }, given)
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left == 0 {
            let broken = std::mem::take(&mut self.breaks);
            return Poll::Ready(broken.then(|| Err(std::io::Error::other("broken off"))));
        }
        self.left -= 1;
        self.given.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; self.size])))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::new()
    }
}
