//! While the store is away.

use http::{Response, StatusCode};
use lockkeeper::{Limiter, WhenAway};
use lockkeeper_tower::rate_limit::{RateLimit, Rule};
use serde_json::{Value, json};

use crate::support::*;

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
