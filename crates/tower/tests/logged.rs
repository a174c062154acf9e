//! What is said in the log, and how often. By itself, because a thread without a subscriber that comes first can silence
//! an event for all: here every test has one.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "rate_limit/support.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod support;

use std::convert::Infallible;
use std::io::Write;
use std::sync::Arc;

use lockkeeper::WhenAway;
use lockkeeper_tower::IdempotencyLayer;
use lockkeeper_tower::rate_limit::{PeerAddress, Rule};
use parking_lot::Mutex;
use tower::Layer as _;
use tracing::Level;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::fmt::MakeWriter;

use support::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The lines that were logged meanwhile and hold `text`.
async fn lines(text: &str, work: impl Future<Output = ()>) -> Vec<String> {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false).with_writer(log.clone());
    work.with_subscriber(subscriber.finish()).await;
    let all = String::from_utf8(log.0.lock().clone()).unwrap();
    all.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

#[tokio::test]
async fn r152_one_private_address_alone_is_warned_of_once() {
    let (keeper, _clock) = stepped().await;
    let service = served([rule(&keeper, "site", "1000000/h")]);
    let said = lines("all clients share one limit", async {
        for _ in 0..1500 {
            send(&service, get("/", [10, 0, 0, 1])).await;
        }
    });
    let said = said.await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("WARN") && said[0].contains("10.0.0.1"), "{said:?}");
}

#[tokio::test]
async fn r151_a_server_without_connect_info_is_told_so_and_the_log_is_not_flooded() {
    let (keeper, _clock) = stepped().await;
    let service = served([rule(&keeper, "site", "5/h")]);
    let said = lines("rate_limit_subject_unknown", async {
        for _ in 0..1000 {
            let mut request = get("/", ADDRESS);
            request.extensions_mut().remove::<PeerAddress>();
            send(&service, request).await;
        }
    });
    let said = said.await;
    assert_eq!(said.len(), 10, "1, 2, 4 and so on to 512");
    assert!(said[0].contains("start the server with connect info, or insert a `PeerAddress`"), "{}", said[0]);
}

#[tokio::test]
async fn a_shadow_refusal_is_logged_without_saying_who() {
    let (keeper, _clock) = stepped().await;
    let service = served([Rule::new(keeper.limiter("new", "1/h").unwrap(), by_address()).shadow()]);
    let said = lines("rate_limit_shadow_refusal", async {
        statuses(&service, (0..3).map(|_| get("/", ADDRESS))).await;
    });
    let said = said.await;
    assert_eq!(said.len(), 2);
    assert!(said[0].contains("DEBUG") && said[0].contains("limiter=\"new\""), "{}", said[0]);
    assert!(!said[0].contains("192.0.2.1"), "{}", said[0]);
}

/// What a rule on another store took is given back; what was allowed without a store is not asked back of it.
#[tokio::test]
async fn an_earlier_rule_gets_back_what_it_took_when_a_later_one_cannot_be_checked() {
    let ((there, _clock), gone) = (stepped().await, away().await);
    let counted = there.limiter("counted", "5/h").unwrap();
    let open = gone.limiter("open", "5/h").unwrap().when_away(WhenAway::Allow);
    let service = served([
        Rule::new(open, by_address()),
        Rule::new(counted.clone(), by_address().over_all_routes()),
        rule(&gone, "strict", "5/h"),
    ]);
    let said = lines("rate_limit_", async {
        assert_eq!(statuses(&service, [get("/", ADDRESS)]).await, [503]);
    });
    let said = said.await;
    assert_eq!(said.len(), 1, "no refund failed, because none was asked of who is away: {said:?}");
    assert!(
        said[0].contains("WARN")
            && said[0].contains("rate_limit_not_decided limiter=\"strict\" kind=Unreachable"),
        "{said:?}"
    );
    assert!(!said[0].contains("192.0.2.1"), "not who: {said:?}");
    let left = counted.peek(std::net::IpAddr::from(ADDRESS), 1).await.unwrap();
    assert_eq!(left.remaining(), 5);
}

#[tokio::test]
async fn requests_that_run_unprotected_are_logged_seldom_and_without_saying_whose() {
    let once = away().await.once("orders").unwrap();
    let layer =
        IdempotencyLayer::builder(once).scope_by(|_| Some("secret-caller")).fail_open().build().unwrap();
    let inner = tower::service_fn(async |_: http::Request<_>| {
        Ok::<_, Infallible>(http::Response::new(String::new()))
    });
    let service = layer.layer(inner);
    let said = lines("idempotency_", async {
        for _ in 0..100 {
            let request =
                http::Request::post("/").header("idempotency-key", "secret-key").body(String::new());
            send(&service, request.unwrap()).await;
        }
    });
    let said = said.await;
    assert_eq!(said.len(), 7, "1, 2, 4 and so on to 64: {said:?}");
    assert!(
        said[0].contains("WARN") && said[0].contains("idempotency_unprotected once=\"orders\""),
        "{}",
        said[0]
    );
    assert!(!said.iter().any(|line| line.contains("secret")), "{said:?}");
    assert_eq!(layer.unprotected_runs(), 100);
}
