//! While the store is away.

use std::net::TcpListener;
use std::time::Instant;

use http::{Response, StatusCode};
use lockkeeper::{Keeper, Limiter, WhenAway};
use lockkeeper_tower::rate_limit::{RateLimit, Rule};
use serde_json::{Value, json};

use crate::support::*;

/// A Redis where nobody listens.
async fn away() -> Keeper {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("redis://127.0.0.1:{port}");
    Keeper::builder().url(&url).unwrap().lazy().connect().await.unwrap()
}

fn by(limiter: Limiter) -> RateLimit<Inner> {
    served([Rule::new(limiter, by_address())])
}

fn problem(response: &Response<String>) -> Value {
    serde_json::from_str(response.body()).unwrap()
}

#[tokio::test]
async fn r127_r161_a_store_that_is_away_is_503_and_never_429() {
    let service = by(away().await.limiter("login", "5/10s").unwrap());
    for _ in 0..10 {
        let answer = send(&service, get("/", ADDRESS)).await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let expected = [
            "content-type: application/problem+json",
            "ratelimit-policy: \"login\";q=5;w=10",
            "retry-after: 1",
        ];
        assert_eq!(fields(&answer), expected, "no numbers that nobody knows");
        let expected = json!({
            "type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "title": "Limits cannot be checked right now",
            "status": 503,
            "detail": "Whether a limit is exceeded is not known. Try again in 1 s.",
            "retry_after": 1,
        });
        assert_eq!(problem(&answer), expected, "and nothing of the server");
    }
}

#[tokio::test]
async fn r128_whoever_allows_then_lets_pass_and_says_no_numbers() {
    let service = by(away().await.limiter("login", "1/h").unwrap().when_away(WhenAway::Allow));
    for _ in 0..5 {
        let answer = send(&service, get("/", ADDRESS)).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(fields(&answer), ["ratelimit-policy: \"login\";q=1;w=3600"]);
        assert_eq!(answer.body(), &format!("Some({})", u64::MAX), "nothing is known that is binding");
    }
}

#[tokio::test]
async fn a_share_that_is_used_up_is_reduced_capacity_and_not_a_quota() {
    let service =
        by(away().await.limiter("login", "6/h").unwrap().when_away(WhenAway::Share { instances: 3 }));
    assert_eq!(statuses(&service, (0..2).map(|_| get("/", ADDRESS))).await, [200, 200]);
    let refused = send(&service, get("/", ADDRESS)).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(field(&refused, "ratelimit"), None);
    let wait: u64 = field(&refused, "retry-after").unwrap().parse().unwrap();
    assert!((1700..=1800).contains(&wait), "two per hour: {wait}");
    let problem = problem(&refused);
    let expected = json!("https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
    assert_eq!((&problem["type"], &problem["retry_after"]), (&expected, &json!(wait)));
}

#[tokio::test]
async fn shadow_rules_let_pass_what_they_cannot_check() {
    let limiter = away().await.limiter("new", "1/h").unwrap();
    let service = served([Rule::new(limiter, by_address()).shadow()]);
    let answer = send(&service, get("/", ADDRESS)).await;
    assert_eq!((answer.status(), answer.headers().len()), (StatusCode::OK, 0));
}

/// What a rule on another store took is given back; what was allowed without a store is not asked back of it.
#[tokio::test]
async fn an_earlier_rule_gets_back_what_it_took_when_a_later_one_cannot_be_checked() {
    let (there, _clock) = stepped().await;
    // Takes connections and says nothing: a refund asked of it would take ten seconds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let gone =
        Keeper::builder().url(&url).unwrap().response_timeout(secs(10)).lazy().connect().await.unwrap();
    let counted = there.limiter("counted", "5/h").unwrap();
    let open = gone.limiter("open", "5/h").unwrap().when_away(WhenAway::Allow);
    let service = served([
        Rule::new(open, by_address()),
        Rule::new(counted.clone(), by_address().over_all_routes()),
        rule(&gone, "strict", "5/h"),
    ]);
    let begun = Instant::now();
    let answer = send(&service, get("/", ADDRESS)).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(begun.elapsed() < secs(5), "real time: two decisions of 100 ms");
    let left = counted.peek(std::net::IpAddr::from(ADDRESS), 1).await.unwrap();
    assert_eq!(left.remaining(), 5);
}
