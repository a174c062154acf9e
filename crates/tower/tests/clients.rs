//! Real clients against a real server, in real time: whoever comes back earlier than told is caught there. Nothing is
//! said of how much later they come, so a slow machine does not matter. Takes about four
//! seconds.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lockkeeper_tower::RetryAfterLayer;
use lockkeeper_tower::retry_after::RetryPolicy;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::{Layer, Service, ServiceExt};

const CALLS: usize = 8;
const TOLD: Duration = Duration::from_secs(1);

/// What the server has told and seen.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    /// By path: before this moment it must not be asked again.
    not_before: HashMap<String, Instant>,
    /// Before this moment nothing must be asked.
    nothing_before: Option<Instant>,
    accepted: usize,
    refused: usize,
    early: usize,
}

/// Refuses each path once: a GET by `Retry-After`, a POST in the words of the `RateLimit` field.
async fn answer(State(log): State<Log>, method: Method, uri: Uri) -> Response<Body> {
    let mut log = log.0.lock().unwrap();
    let (now, path) = (Instant::now(), uri.path().to_owned());
    log.early += usize::from(log.nothing_before.is_some_and(|moment| now < moment));
    if let Some(moment) = log.not_before.get(&path).copied() {
        log.early += usize::from(now < moment);
        log.accepted += 1;
        return Response::new(Body::from("done"));
    }
    log.refused += 1;
    log.not_before.insert(path, now + TOLD);
    let refusal = Response::builder();
    let refusal = if method == Method::POST {
        log.nothing_before = Some(now + 2 * TOLD);
        refusal.status(StatusCode::SERVICE_UNAVAILABLE).header("ratelimit", r#""all";r=0;t=2"#)
    } else {
        refusal.status(StatusCode::TOO_MANY_REQUESTS).header("retry-after", "1")
    };
    refusal.body(Body::from("not now")).unwrap()
}

async fn serve() -> (SocketAddr, Log) {
    let log = Log::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer).with_state(log.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, log)
}

/// Sheds nothing: half of what is sent here is refused.
fn layer() -> RetryAfterLayer {
    RetryAfterLayer::new(RetryPolicy::default().circuit(None)).unwrap()
}

/// Two waves of requests. Those of the first are told each for itself; those of the second are held back, because a
/// request before them was told.
async fn check<S, R, T>(client: S, request: impl Fn(Method, String) -> R, code: impl Fn(&T) -> u16 + Copy)
where
    S: Service<R, Response = T> + Clone + Send + 'static,
    S::Error: std::fmt::Debug + Send,
    S::Future: Send,
    R: Send + 'static,
    T: Send + 'static,
{
    let (address, log) = serve().await;
    let send =
        |method, path: String| client.clone().oneshot(request(method, format!("http://{address}/{path}")));
    let mut first = JoinSet::new();
    (0..CALLS).for_each(|number| drop(first.spawn(send(Method::GET, number.to_string()))));
    let answers = first.join_all().await;
    assert_eq!(answers.iter().map(|answer| code(answer.as_ref().unwrap())).collect::<Vec<_>>(), [200; CALLS]);

    // A 503 without Retry-After is no proof that a POST did nothing: it is passed on.
    assert_eq!(code(&send(Method::POST, "post".to_owned()).await.unwrap()), 503);
    let mut second = JoinSet::new();
    (0..CALLS).for_each(|number| drop(second.spawn(send(Method::GET, number.to_string()))));
    let answers = second.join_all().await;
    assert_eq!(answers.iter().map(|answer| code(answer.as_ref().unwrap())).collect::<Vec<_>>(), [200; CALLS]);

    let log = log.0.lock().unwrap();
    assert_eq!((log.accepted, log.refused, log.early), (2 * CALLS, CALLS + 1, 0));
}

#[tokio::test]
async fn hyper_comes_back_no_earlier_than_told() {
    let layer = layer();
    let client: Client<_, Full<&[u8]>> = Client::builder(TokioExecutor::new()).build_http();
    let request = |method, uri: String| {
        Request::builder().method(method).uri(uri).body(Full::new(&b"work"[..])).unwrap()
    };
    check(layer.layer(client), request, |answer: &Response<_>| answer.status().as_u16()).await;
    let counts = layer.statistics().read();
    assert!(counts.held_back >= CALLS as u64, "{counts:?}");
    assert_eq!((counts.retries, counts.shed), (CALLS as u64, 0));
}

#[cfg(feature = "reqwest")]
#[tokio::test]
async fn reqwest_comes_back_no_earlier_than_told() {
    let layer = layer();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = |method, uri: String| reqwest::Request::new(method, uri.parse().unwrap());
    check(layer.layer(client), request, |answer: &reqwest::Response| answer.status().as_u16()).await;
    let counts = layer.statistics().read();
    assert!(counts.held_back >= CALLS as u64, "{counts:?}");
    assert_eq!((counts.retries, counts.shed), (CALLS as u64, 0));
}
