//! Refusals as clients see them.

use http::Response;
use serde_json::{Value, json};

use crate::support::*;

/// Status, headers and body, as they are.
fn shown(answer: &Answer) -> Value {
    let headers: Vec<String> = answer
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .filter(|line| !line.starts_with("content-length"))
        .collect();
    json!([answer.status(), headers, answer.problem()])
}

const TYPES: &str = "https://github.com/lockkeeper/lockkeeper/blob/main/docs/problems.md#idempotency-";

fn problem(status: u16, name: &str, title: &str, detail: &str) -> Value {
    json!([status, ["content-type: application/problem+json"], {
        "type": format!("{TYPES}{name}"), "title": title, "status": status, "detail": detail,
    }])
}

#[tokio::test]
async fn requests_without_a_valid_key_are_told_what_is_wrong() {
    let (router, _) = numbered(builder(orders(&memory().await)));
    let mut keyless = post("1", "");
    keyless.headers_mut().remove("idempotency-key");
    let expected = problem(
        400,
        "key-missing",
        "An idempotency key is needed",
        "Send the header `Idempotency-Key`, with a new random key for each operation.",
    );
    assert_eq!(shown(&send(&router, keyless).await), expected);
    let expected = problem(
        400,
        "key-malformed",
        "The idempotency key is not valid",
        "The header `Idempotency-Key` must have one key of 1 to 255 printable characters, in quotes or not.",
    );
    assert_eq!(shown(&send(&router, post("a, b", "")).await), expected);
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_told_why() {
    let (router, _) = numbered(builder(orders(&memory().await)).max_request(10));
    let expected = problem(
        413,
        "body-too-large",
        "The request is too large",
        "Requests with an idempotency key have at most 10 bytes.",
    );
    assert_eq!(shown(&send(&router, post("1", "more than ten bytes")).await), expected);
    let unreadable = send(&router, json_body("{\"a\":")).await;
    assert_eq!(unreadable.problem_type(), "idempotency-body-unreadable");
    let detail = unreadable.problem()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("The body is not valid JSON: "), "{detail}");
}

fn json_body(body: &'static str) -> axum::extract::Request {
    crate::support::json("1", body)
}

#[tokio::test]
async fn a_different_request_is_told_so() {
    let (router, _) = numbered(builder(orders(&memory().await)));
    send(&router, post("1", "this")).await;
    let expected = problem(
        422,
        "different-request",
        "The idempotency key was used for a different request",
        "A key can be used again for the same request only. Use a new one for a new request.",
    );
    assert_eq!(shown(&send(&router, post("1", "that")).await), expected);
}

#[tokio::test]
async fn a_store_that_is_away_is_told_without_a_word_of_it() {
    let (router, _) = numbered(builder(orders(&away().await)));
    let answer = send(&router, post("1", "")).await;
    let expected = json!([503, ["content-type: application/problem+json", "retry-after: 1"], {
        "type": format!("{TYPES}unavailable"),
        "title": "Idempotency keys cannot be checked right now",
        "status": 503,
        "detail": "The request was not processed. Send it again later.",
        "retry_after": 1,
    }]);
    assert_eq!(shown(&answer), expected);
}

#[tokio::test]
async fn refusals_can_be_answered_in_another_way() {
    let away = builder(orders(&away().await)).respond_with(|refusal| {
        let mut answer = Response::new(format!("{:?}", refusal.kind()).into());
        *answer.status_mut() = refusal.status();
        answer
    });
    let (router, _) = numbered(away);
    let answer = send(&router, post("1", "")).await;
    assert_eq!(
        (answer.status(), answer.text(), answer.field("retry-after")),
        (503, "Unavailable", Some("1"))
    );
}
