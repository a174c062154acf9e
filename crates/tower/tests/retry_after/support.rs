//! A server that answers by a script and notes when it was asked.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, StatusCode};
use lockkeeper_tower::RetryAfterLayer;
use lockkeeper_tower::retry_after::{BoxError, Counts, RetryAfter, RetryPolicy, Shed};
use tokio::time::{Instant, Sleep, sleep};
use tower::{Layer, Service, ServiceExt};

pub(crate) const URI: &str = "http://example.com/a";

pub(crate) type Client = RetryAfter<Server>;
pub(crate) type Outcome = Result<Response<()>, BoxError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection refused")]
pub(crate) struct Down;

/// One answer, and how long it takes.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    outcome: Result<(StatusCode, HeaderMap), Down>,
    takes: Duration,
}

pub(crate) fn status(status: u16) -> Answer {
    let outcome = Ok((StatusCode::from_u16(status).unwrap(), HeaderMap::new()));
    Answer { outcome, takes: Duration::ZERO }
}

pub(crate) fn down() -> Answer {
    Answer { outcome: Err(Down), takes: Duration::ZERO }
}

/// A refusal with a hint.
pub(crate) fn told(code: u16, retry_after: &str) -> Answer {
    status(code).with("retry-after", retry_after)
}

impl Answer {
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.outcome.as_mut().unwrap().1.append(name, value.parse().unwrap());
        self
    }

    pub(crate) fn takes(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }
}

/// The scripted server. Clones are the same server; each takes its own time to be ready.
pub(crate) struct Server {
    script: Arc<Mutex<Script>>,
    ready_after: Duration,
    getting_ready: Option<Pin<Box<Sleep>>>,
}

struct Script {
    first: VecDeque<Answer>,
    then: Answer,
    start: Instant,
    arrivals: Vec<Duration>,
}

impl Clone for Server {
    fn clone(&self) -> Self {
        Self { script: self.script.clone(), ready_after: self.ready_after, getting_ready: None }
    }
}

impl Server {
    /// Gives these answers, and then 200 for ever.
    pub(crate) fn new(first: impl IntoIterator<Item = Answer>) -> Self {
        Self::always(first, status(200))
    }

    /// Gives these answers, and then this one for ever.
    pub(crate) fn always(first: impl IntoIterator<Item = Answer>, then: Answer) -> Self {
        let first = first.into_iter().collect();
        let script = Script { first, then, start: Instant::now(), arrivals: Vec::new() };
        Self { script: Arc::new(Mutex::new(script)), ready_after: Duration::ZERO, getting_ready: None }
    }

    /// Takes so long to be ready for each request.
    pub(crate) fn ready_after(self, ready_after: Duration) -> Self {
        Self { ready_after, ..self }
    }

    pub(crate) fn now_answers(&self, then: Answer) {
        self.script.lock().unwrap().then = then;
    }

    /// When each request arrived, from the making of the server.
    pub(crate) fn arrivals(&self) -> Vec<Duration> {
        self.script.lock().unwrap().arrivals.clone()
    }
}

impl Service<Request<()>> for Server {
    type Response = Response<()>;
    type Error = Down;
    type Future = Pin<Box<dyn Future<Output = Result<Response<()>, Down>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Down>> {
        let ready_after = self.ready_after;
        if ready_after.is_zero() {
            return Poll::Ready(Ok(()));
        }
        let wait = self.getting_ready.get_or_insert_with(|| Box::pin(sleep(ready_after)));
        wait.as_mut().poll(context).map(Ok)
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut script = self.script.lock().unwrap();
        let arrival = script.start.elapsed();
        script.arrivals.push(arrival);
        let answer = script.first.pop_front().unwrap_or_else(|| script.then.clone());
        Box::pin(async move {
            if !answer.takes.is_zero() {
                sleep(answer.takes).await;
            }
            let (status, headers) = answer.outcome?;
            let mut response = Response::new(());
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        })
    }
}

/// Jitter is drawn from a fixed seed, so that a failure repeats.
pub(crate) fn policy() -> RetryPolicy {
    RetryPolicy::default().seed(1)
}

pub(crate) fn client(server: &Server, policy: RetryPolicy) -> Client {
    RetryAfterLayer::new(policy).unwrap().layer(server.clone())
}

/// A client, and what reads its counters.
pub(crate) fn counted(server: &Server, policy: RetryPolicy) -> (Client, impl Fn() -> Counts) {
    let layer = RetryAfterLayer::new(policy).unwrap();
    let statistics = layer.statistics();
    (layer.layer(server.clone()), move || statistics.read())
}

pub(crate) async fn send(client: &Client, method: Method, uri: &str) -> Outcome {
    let request = Request::builder().method(method).uri(uri).body(()).unwrap();
    client.clone().oneshot(request).await
}

pub(crate) async fn get(client: &Client) -> Outcome {
    send(client, Method::GET, URI).await
}

pub(crate) fn code(outcome: &Outcome) -> u16 {
    outcome.as_ref().unwrap().status().as_u16()
}

pub(crate) fn shed(outcome: &Outcome) -> Option<Shed> {
    outcome.as_ref().err()?.downcast_ref().copied()
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// At `least` or later, and at `most`; the timer's millisecond is forgiven upwards.
pub(crate) fn assert_within(what: Duration, least: Duration, most: Duration) {
    assert!(what >= least && what <= most + ms(1), "{what:?} is not within {least:?} and {most:?}");
}
