//! The client's half against the server's half, in real time: nobody comes back earlier than told, and whoever comes back
//! then passes. Takes about three seconds; nothing is said of how much later they come.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lockkeeper::Keeper;
use lockkeeper_tower::rate_limit::{RateLimitLayer, Rule, Who};
use lockkeeper_tower::retry_after::RetryPolicy;
use lockkeeper_tower::{ClientAddress, RetryAfterLayer};
use tokio::net::TcpListener;
use tower::{Layer, ServiceExt};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    not_before: Option<Instant>,
    statuses: Vec<u16>,
    early: usize,
}

/// Stands outside of the limits, and notes what they tell and who comes.
async fn watch(State(log): State<Log>, request: Request, next: Next) -> Response {
    let came = Instant::now();
    let answer = next.run(request).await;
    let mut log = log.0.lock().unwrap();
    log.early += usize::from(log.not_before.is_some_and(|moment| came < moment));
    log.statuses.push(answer.status().as_u16());
    if let Some(told) = answer.headers().get("retry-after") {
        let told: u64 = told.to_str().unwrap().parse().unwrap();
        log.not_before = Some(Instant::now() + Duration::from_secs(told));
    }
    answer
}

async fn serve(limit: &str) -> (SocketAddr, Log) {
    let keeper = Keeper::connect("memory://").await.unwrap();
    let rule = Rule::new(keeper.limiter("api", limit).unwrap(), Who::address(ClientAddress::peer()));
    let log = Log::default();
    let router = Router::new()
        .route("/things/{id}", get(async || "done"))
        .layer(RateLimitLayer::new([rule]).unwrap())
        .layer(from_fn_with_state(log.clone(), watch));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    (address, log)
}

#[tokio::test]
async fn the_client_comes_back_no_earlier_than_told_and_then_passes() {
    let (address, log) = serve("1/3s").await;
    let client: Client<_, Empty<&[u8]>> = Client::builder(TokioExecutor::new()).build_http();
    // Half of what is sent is refused, which would open the circuit.
    let client = RetryAfterLayer::new(RetryPolicy::default().circuit(None)).unwrap().layer(client);
    let call = |id: u32| {
        let request = http::Request::get(format!("http://{address}/things/{id}")).body(Empty::new()).unwrap();
        client.clone().oneshot(request)
    };
    let (first, second) = tokio::join!(call(1), call(2));
    assert_eq!((first.unwrap().status().as_u16(), second.unwrap().status().as_u16()), (200, 200));
    let log = log.0.lock().unwrap();
    assert_eq!((&log.statuses[..], log.early), (&[200, 429, 200][..], 0));
}
