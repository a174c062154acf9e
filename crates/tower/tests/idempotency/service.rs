//! As tower demands: readiness, cancellation, threads.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use http::Response;
use lockkeeper_testkit::drops::poll_times;
use lockkeeper_tower::idempotency::IdempotencyBody;
use tower::{Layer as _, Service, ServiceExt as _};

use crate::support::*;

/// Must be made ready before each call, and a clone is not ready.
#[derive(Default)]
struct Strict {
    is_ready: bool,
    calls: Arc<AtomicUsize>,
    misuses: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { is_ready: false, calls: self.calls.clone(), misuses: self.misuses.clone() }
    }
}

impl Service<Request<IdempotencyBody<Body>>> for Strict {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<IdempotencyBody<Body>>) -> Self::Future {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let was_ready = std::mem::take(&mut self.is_ready);
        self.misuses.fetch_add(usize::from(!was_ready), Ordering::SeqCst);
        ready(Ok(Response::new(Body::empty())))
    }
}

fn get() -> Request {
    Request::get("/").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn only_a_service_that_is_ready_is_called() {
    let strict = Strict::default();
    let mut service = builder(orders(&memory().await)).build().unwrap().layer(strict.clone());
    for request in [post("1", ""), get(), post("1", ""), get(), post("2", "")] {
        service.ready().await.unwrap().call(request).await.unwrap();
    }
    let counted = [&strict.calls, &strict.misuses].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(counted, [4, 0], "all but the replay, and none before its time");
}

/// A server that takes connections and says nothing.
#[tokio::test]
async fn who_goes_away_before_the_store_answered_does_not_reach_the_service() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let keeper = lockkeeper::Keeper::builder().url(&url).unwrap().lazy().connect().await.unwrap();
    let strict = Strict::default();
    let service = builder(orders(&keeper)).build().unwrap().layer(strict.clone());
    let asked = poll_times(service.oneshot(post("1", "")), 1).await;
    assert!(asked.is_none(), "the store is being asked");
    assert_eq!(strict.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_future_can_go_to_another_thread() {
    fn sendable<T: Send>(value: T) -> T {
        value
    }
    let mut service = sendable(builder(orders(&memory().await)).build().unwrap().layer(Strict::default()));
    assert_eq!(sendable(service.call(post("1", ""))).await.unwrap().status(), 200);
}
