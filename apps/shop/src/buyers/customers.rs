//! Customers who order with an idempotency key, and send everything more than once.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::MAX_ANSWER;
use super::backoff::{pause, told};

/// The most customers.
pub const MAX_CUSTOMERS: u32 = 10_000;
const CONNECTIONS: usize = 64;
const TRIES: u32 = 20;
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const REPLAYED: &str = "idempotent-replayed";

/// What customers saw. Each sends its order twice at once, and once more when it has its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ordered {
    /// How many they were.
    pub customers: u32,
    /// How many have their order.
    pub served: u32,
    /// Requests that were sent.
    pub requests: u64,
    /// Answers that were replayed.
    pub replayed: u64,
    /// Requests that were told that their twin is running.
    pub running: u64,
    /// Keys that were used for another order, and were refused.
    pub different: u64,
}

struct Street {
    http: Client<HttpConnector, Full<VecDeque<u8>>>,
    servers: Vec<SocketAddr>,
    connections: Semaphore,
    run: String,
}

struct Answer {
    status: u16,
    is_replayed: bool,
    told: Option<Duration>,
}

/// Lets so many customers order, one lantern each; `run` makes their order numbers and keys this run's own.
///
/// # Errors
/// None: what goes wrong is in the numbers.
///
/// # Cancel safety
/// Everybody goes home; what was ordered is ordered.
pub async fn order_twice(servers: Vec<SocketAddr>, customers: u32, run: &str) -> Ordered {
    let customers = customers.min(MAX_CUSTOMERS);
    let mut all = Ordered { customers, ..Ordered::default() };
    if servers.is_empty() {
        return all;
    }
    let http = Client::builder(TokioExecutor::new()).build_http();
    let connections = Semaphore::new(CONNECTIONS);
    let street = Arc::new(Street { http, servers, connections, run: run.to_owned() });
    let mut tasks = JoinSet::new();
    (0..customers).for_each(|number| drop(tasks.spawn(customer(street.clone(), number))));
    while let Some(one) = tasks.join_next().await {
        all.add(one.unwrap_or_default());
    }
    all
}

impl Ordered {
    fn add(&mut self, other: Self) {
        self.served += other.served;
        self.requests += other.requests;
        self.replayed += other.replayed;
        self.running += other.running;
        self.different += other.different;
    }

    fn note(&mut self, answer: Option<&Answer>) {
        self.requests += 1;
        if let Some(answer) = answer {
            self.replayed += u64::from(answer.is_replayed);
            self.running += u64::from(answer.status == 409);
            self.different += u64::from(answer.status == 422);
        }
    }
}

async fn customer(street: Arc<Street>, number: u32) -> Ordered {
    let mut seen = Ordered::default();
    let mut random = SmallRng::seed_from_u64(u64::from(number));
    for tried in 0..TRIES {
        let at = (number + tried) as usize;
        // A double click: two requests with one key.
        let (one, other) = join(street.order(at, number, 500), street.order(at + 1, number, 500)).await;
        [&one, &other].into_iter().for_each(|answer| seen.note(answer.as_ref()));
        let is_served = |answer: &&Answer| matches!(answer.status, 200 | 201);
        if [&one, &other].into_iter().flatten().any(|answer| is_served(&answer)) {
            seen.served = 1;
            // Once more, as after a lost answer; and the key for something else.
            seen.note(street.order(at, number, 500).await.as_ref());
            seen.note(street.order(at, number, 700).await.as_ref());
            return seen;
        }
        let told = one.or(other).and_then(|answer| answer.told);
        tokio::time::sleep(pause(told, tried, &mut random)).await;
    }
    seen
}

impl Street {
    async fn order(&self, at: usize, number: u32, cents: u32) -> Option<Answer> {
        let _connection = self.connections.acquire().await.ok()?;
        let server = self.servers[at % self.servers.len()];
        tokio::time::timeout(ANSWER_WITHIN, self.send(server, number, cents)).await.ok().flatten()
    }

    async fn send(&self, server: SocketAddr, number: u32, cents: u32) -> Option<Answer> {
        let Self { run, .. } = self;
        let body = format!(r#"{{"order_no":"{run}-{number}","sku":"lantern","amount_cents":{cents}}}"#);
        let request = Request::post(format!("http://{server}/orders"))
            .header("content-type", "application/json")
            .header("x-account", format!("customer-{number}"))
            .header("idempotency-key", format!("{run}-{number}"));
        let response =
            self.http.request(request.body(Full::new(body.into_bytes().into())).ok()?).await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers());
        let is_replayed = headers.contains_key(REPLAYED);
        let told = told(headers);
        Limited::new(response.into_body(), MAX_ANSWER).collect().await.ok()?;
        Some(Answer { status, is_replayed, told })
    }
}
