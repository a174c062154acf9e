//! How faithful a replay is, and for how long.

use axum::body::Body;
use axum::response::IntoResponse as _;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::BodyExt as _;

use crate::support::*;

fn sorted(headers: &HeaderMap) -> Vec<String> {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        format!("{name}: {}", value.to_str().unwrap())
    };
    let mut all: Vec<String> = headers.iter().map(line).collect();
    all.sort();
    all
}

#[tokio::test]
async fn c28_a_replay_has_what_describes_the_answer_and_nothing_of_the_first_exchange() {
    let (keeper, _clock) = stepped().await;
    let named = builder(orders(&keeper)).replay_headers([http::HeaderName::from_static("x-order")]);
    let (router, _) = app(named, |run, _| async move {
        let headers = [
            ("location", "/orders/7"),
            ("etag", "\"7\""),
            ("set-cookie", "session=first"),
            ("date", "Mon, 30 Nov 2026 00:14:36 GMT"),
            ("x-request-id", "first"),
            ("x-ratelimit-remaining", "3"),
            ("x-order", "7"),
            ("x-other", "first"),
        ];
        (StatusCode::CREATED, headers, format!("run {run}"))
    });
    let first = send(&router, post("1", "")).await;
    assert_eq!(first.field("set-cookie"), Some("session=first"), "the first answer is the handler's");
    assert_eq!((first.field("idempotency-retention"), first.is_replay()), (Some("86400"), false));
    let replay = send(&router, post("1", "")).await;
    assert_eq!((replay.status(), replay.text()), (201, "run 1"));
    let expected = [
        "content-length: 5",
        "content-type: text/plain; charset=utf-8",
        "etag: \"7\"",
        "idempotency-retention: 86400",
        "idempotent-replayed: true",
        "location: /orders/7",
        "x-order: 7",
    ];
    assert_eq!(sorted(&replay.headers), expected);
}

#[test]
fn c28_headers_of_one_exchange_cannot_be_asked_for() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let once = orders(&runtime.block_on(memory()));
    for name in ["set-cookie", "date", "x-request-id", "ratelimit", "x-ratelimit-reset", "connection"] {
        let name: http::HeaderName = name.parse().unwrap();
        let error = builder(once.clone()).replay_headers([name.clone()]).build().unwrap_err().to_string();
        assert!(error.contains(name.as_str()) && error.contains("is not replayed"), "{error}");
    }
}

#[tokio::test]
async fn c29_status_content_type_and_body_are_the_same_byte_by_byte() {
    let answers: [(u16, Option<&str>, &[u8]); 7] = [
        (201, Some("application/json"), b"{\"id\":7}"),
        (204, None, b""),
        (304, None, b""),
        (200, Some("application/vnd.x+json; charset=utf-8"), b"{ }\n\n"),
        (200, Some("application/octet-stream"), b"\x00\n\xff\x00\r\n{}"),
        (303, Some("text/plain"), b""),
        (418, None, b"teapot"),
    ];
    for (status, media_type, body) in answers {
        let (router, runs) = app(builder(orders(&memory().await)), move |_, _| async move {
            let mut answer = Response::builder().status(status);
            if let Some(media_type) = media_type {
                answer = answer.header("content-type", media_type);
            }
            answer.body(Body::from(body)).unwrap()
        });
        let (first, replay) = (send(&router, post("1", "")).await, send(&router, post("1", "")).await);
        assert_eq!((first.status, &first.body), (replay.status, &replay.body));
        assert_eq!(
            (replay.status(), &replay.body[..], replay.field("content-type")),
            (status, body, media_type)
        );
        assert!(replay.is_replay() && runs.count() == 1);
    }
}

#[tokio::test]
async fn trailers_are_replayed_behind_the_body() {
    let (router, _) = app(builder(orders(&memory().await)), |_, _| async {
        let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
        let body = pieces(2, 3).0.map_err(axum::Error::new);
        Response::new(Body::new(body.with_trailers(async { Some(Ok(trailers)) })))
    });
    let (first, replay) = (send(&router, post("1", "")).await, send(&router, post("1", "")).await);
    for answer in [&first, &replay] {
        assert_eq!(
            (answer.text(), answer.trailers.as_ref().unwrap()["grpc-status"].as_bytes()),
            ("xxxxxx", &b"0"[..])
        );
        assert_eq!(answer.field("content-length"), None, "with a length, servers send no trailers");
    }
    assert!(replay.is_replay());
}

/// The other way round: what a client sends behind its body arrives.
#[tokio::test]
async fn bodies_and_trailers_of_requests_arrive_as_they_were_sent() {
    let (router, _) = app(builder(orders(&memory().await)), |_, request: axum::extract::Request| async {
        let collected = request.into_body().collect().await.unwrap();
        let trailer = collected.trailers().map(|trailers| trailers["x-sum"].clone());
        format!("{:?} {}", trailer, collected.to_bytes().len())
    });
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]);
    let body =
        Body::new(pieces(3, 5).0.map_err(axum::Error::new).with_trailers(async { Some(Ok(trailers)) }));
    assert_eq!(send(&router, post("1", body)).await.text(), "Some(\"7\") 15");
}

#[tokio::test]
async fn heads_are_replayed_where_they_are_asked_for() {
    let (router, runs) = app(builder(orders(&memory().await)).methods([Method::HEAD]), |_, _| async {
        [("etag", "\"1\"")].into_response()
    });
    for is_replay in [false, true] {
        let mut request = post("1", "");
        *request.method_mut() = Method::HEAD;
        let answer = send(&router, request).await;
        assert_eq!(
            (answer.status(), answer.field("etag"), answer.is_replay()),
            (200, Some("\"1\""), is_replay)
        );
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn c44_retention_is_announced_counts_down_and_is_not_lengthened_by_replays() {
    let (keeper, clock) = stepped().await;
    let (router, runs) = numbered(builder(orders(&keeper).retain(secs(3600))));
    let first = send(&router, post("1", "")).await;
    assert_eq!(first.field("idempotency-retention"), Some("3600"));
    for (pass, left) in [(1800, "1800"), (1799, "1")] {
        clock.advance(secs(pass));
        let replay = send(&router, post("1", "")).await;
        assert_eq!((replay.is_replay(), replay.field("idempotency-retention")), (true, Some(left)));
    }
    clock.advance(secs(1));
    let fresh = send(&router, post("1", "")).await;
    assert_eq!((fresh.text(), fresh.is_replay(), runs.count()), ("run 2", false, 2));
}

#[tokio::test]
async fn c37_c38_the_same_request_is_replayed_and_a_different_one_refused() {
    let keeper = memory().await;
    let (router, runs) = numbered(builder(orders(&keeper)));
    send(&router, json("1", r#"{"a":1,"b":{"c":2,"d":3}}"#)).await;
    assert!(send(&router, json("1", r#"{"b":{"d":3.0,"c":2},"a":1}"#)).await.is_replay());
    for different in [r#"{"a":1,"b":{"c":3,"d":2}}"#, r#"{"a":1}"#, r#"[1]"#] {
        let refused = send(&router, json("1", different)).await;
        assert_eq!(
            (refused.status(), refused.problem_type()),
            (422, "idempotency-different-request".to_owned())
        );
    }
    let doubled = send(&router, json("2", r#"{"a":1,"a":1}"#)).await;
    assert_eq!((doubled.status(), doubled.problem_type()), (400, "idempotency-body-unreadable".to_owned()));
    assert_eq!(runs.count(), 1);

    let (router, runs) = numbered(builder(keeper.once("signed").unwrap()).compare_bytes());
    send(&router, json("1", r#"{"a":1,"b":2}"#)).await;
    assert_eq!(send(&router, json("1", r#"{"b":2,"a":1}"#)).await.status(), 422);
    assert_eq!(send(&router, json("2", r#"{"a":1,"a":1}"#)).await.status(), 200);
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn requests_can_be_compared_in_another_way() {
    let by_length = builder(orders(&memory().await))
        .compare_by(|_, body| lockkeeper::fingerprint::of_bytes(body.len().to_string()));
    let (router, runs) = numbered(by_length);
    send(&router, post("1", "abc")).await;
    assert!(send(&router, post("1", "xyz")).await.is_replay());
    assert_eq!(send(&router, post("1", "abcd")).await.status(), 422);
    assert_eq!(runs.count(), 1);
}
