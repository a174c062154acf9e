//! As tower demands: readiness, cancellation, concurrency.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::{Request, Response};
use lockkeeper_testkit::drops::poll_times;
use lockkeeper_tower::rate_limit::Rule;
use tower::{Layer, Service, ServiceExt};

use crate::support::*;

/// Must be made ready before each call, and a clone is not ready.
#[derive(Default)]
struct Strict {
    is_ready: bool,
    misuses: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { is_ready: false, misuses: self.misuses.clone() }
    }
}

impl Service<Request<String>> for Strict {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        let was_ready = std::mem::take(&mut self.is_ready);
        self.misuses.fetch_add(usize::from(!was_ready), Ordering::SeqCst);
        ready(Ok(Response::new(String::new())))
    }
}

#[tokio::test]
async fn only_a_service_that_is_ready_is_called() {
    let (keeper, _clock) = stepped().await;
    let strict = Strict::default();
    let layer = layer([rule(&keeper, "a", "9/s")]).skip(|request| request.method == http::Method::OPTIONS);
    let mut service = layer.layer(strict.clone());
    let options = || Request::options("/").body(String::new()).unwrap();
    for request in [get("/", ADDRESS), options(), get("/", ADDRESS), options()] {
        service.ready().await.unwrap().call(request).await.unwrap();
    }
    assert_eq!(strict.misuses.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_at_once_exactly_five_pass() {
    let (keeper, _clock) = stepped().await;
    for limit in ["5/10s", "5/10s fixed-window", "5/10s sliding-log", "5/10s sliding-counter"] {
        let service = served([rule(&keeper, "crowd", limit)]);
        let calls: Vec<_> = (0..50)
            .map(|_| {
                let service = service.clone();
                tokio::spawn(async move { send(&service, get("/", ADDRESS)).await.status().as_u16() })
            })
            .collect();
        let mut passed = 0;
        for call in calls {
            passed += usize::from(call.await.unwrap() == 200);
        }
        assert_eq!(passed, 5, "{limit}");
    }
}

/// A server that takes connections and says nothing.
#[tokio::test]
async fn who_goes_away_before_the_limits_answered_does_not_reach_the_service() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let keeper = lockkeeper::Keeper::builder().url(&url).unwrap().lazy().connect().await.unwrap();
    let inner = Inner::default();
    let limiter = keeper.limiter("slow", "9/s").unwrap().decide_within(secs(60));
    let service = layer([Rule::new(limiter, by_address())]).layer(inner.clone());
    let mut call = Box::pin(send(&service, get("/", ADDRESS)));
    assert!(poll_times(call.as_mut(), 1).await.is_none(), "the limits are being asked");
    drop(call);
    assert_eq!(inner.calls(), 0);
}

#[tokio::test]
async fn the_future_can_go_to_another_thread_and_the_service_need_not_be_sync() {
    fn sendable<T: Send>(value: T) -> T {
        value
    }
    let (keeper, _clock) = stepped().await;
    let mut service = sendable(served([rule(&keeper, "a", "9/s")]));
    let answer = sendable(service.call(get("/", ADDRESS)));
    assert_eq!(answer.await.unwrap().status(), 200);
}
