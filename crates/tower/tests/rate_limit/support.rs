//! What the tests share.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use lockkeeper::{IntoLimits, Keeper, ManualClock};
use lockkeeper_tower::ClientAddress;
use lockkeeper_tower::rate_limit::{
    PeerAddress, RateLimit, RateLimitLayer, RateLimited, RoutePattern, Rule, Who,
};
use tower::{Layer, Service, ServiceExt};

pub(crate) const ADDRESS: [u8; 4] = [192, 0, 2, 1];

pub(crate) fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A memory keeper on a clock that stands at the beginning of an hour.
pub(crate) async fn stepped() -> (Keeper, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Keeper::builder().clock(clock.clone()).connect().await.unwrap(), clock)
}

/// A Redis where nobody listens.
pub(crate) async fn away() -> Keeper {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("redis://127.0.0.1:{port}");
    Keeper::builder().url(&url).unwrap().lazy().connect().await.unwrap()
}

pub(crate) fn by_address() -> Who {
    Who::address(ClientAddress::peer())
}

/// One rule, by the peer's address.
pub(crate) fn rule(keeper: &Keeper, name: &str, limits: impl IntoLimits) -> Rule {
    Rule::new(keeper.limiter(name, limits).unwrap(), by_address())
}

pub(crate) fn layer(rules: impl IntoIterator<Item = Rule>) -> RateLimitLayer {
    RateLimitLayer::new(rules).unwrap()
}

/// The service within: counts its calls, and answers what is remaining as the handler sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inner {
    pub(crate) calls: Arc<AtomicUsize>,
}

impl Inner {
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Service<Request<String>> for Inner {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let remaining = request.extensions().get::<RateLimited>().map(RateLimited::remaining);
        ready(Ok(Response::new(format!("{remaining:?}"))))
    }
}

pub(crate) fn served(rules: impl IntoIterator<Item = Rule>) -> RateLimit<Inner> {
    layer(rules).layer(Inner::default())
}

/// `GET` of a pattern, from an address.
pub(crate) fn get(pattern: &str, from: impl Into<IpAddr>) -> Request<String> {
    let mut request = Request::get("/somewhere").body(String::new()).unwrap();
    request.extensions_mut().insert(RoutePattern(pattern.into()));
    request.extensions_mut().insert(PeerAddress((from.into(), 4711).into()));
    request
}

pub(crate) async fn send<S, B>(service: &S, request: Request<B>) -> S::Response
where
    S: Service<Request<B>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

/// The status of each.
pub(crate) async fn statuses<S, R>(
    service: &S,
    requests: impl IntoIterator<Item = Request<String>>,
) -> Vec<u16>
where
    S: Service<Request<String>, Response = Response<R>, Error = Infallible> + Clone,
{
    let mut all = Vec::new();
    for request in requests {
        all.push(send(service, request).await.status().as_u16());
    }
    all
}

pub(crate) fn field<'a, R>(response: &'a Response<R>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

pub(crate) fn fields<R>(response: &Response<R>) -> Vec<String> {
    let shown = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        format!("{name}: {}", value.to_str().unwrap())
    };
    let mut all: Vec<String> = response.headers().iter().map(shown).collect();
    all.sort();
    all
}
