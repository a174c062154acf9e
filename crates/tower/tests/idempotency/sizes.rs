//! Sizes of requests and answers, and streams.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use lockkeeper::OnCrash;
use lockkeeper_tower::idempotency::{IdempotencyLayer, MAX_ANSWER};
use tokio::sync::mpsc;

use crate::support::*;

const CAP: usize = 1000;
const PIECE: usize = 64 * 1024;
/// 1 GiB of pieces.
const GIGABYTE: usize = (1 << 30) / PIECE;

/// Answers with a body of this size, with or without a length.
async fn answering(size: usize, has_length: bool) -> (Router, Runs) {
    app(builder(orders(&memory().await)).max_answer(CAP), move |_, _| async move {
        let body = if has_length { Body::from(vec![b'x'; size]) } else { Body::new(pieces(size, 1).0) };
        let head = [("location", "/orders/7"), ("etag", "\"7\""), ("content-type", "text/csv")];
        (StatusCode::CREATED, head, body).into_response()
    })
}

#[tokio::test]
async fn c32_c34_up_to_the_cap_it_is_kept_and_beyond_it_sent_once_and_never_run_again() {
    for has_length in [true, false] {
        for size in [0, 1, CAP - 1, CAP] {
            let (router, runs) = answering(size, has_length).await;
            let (first, replay) = (send(&router, post("1", "")).await, send(&router, post("1", "")).await);
            assert_eq!((first.body.len(), &first.body, replay.status()), (size, &replay.body, 201));
            assert!(replay.is_replay() && runs.count() == 1, "{size}");
        }
        for size in [CAP + 1, 10 * CAP] {
            let (router, runs) = answering(size, has_length).await;
            let first = send(&router, post("1", "")).await;
            assert_eq!((first.status(), first.body.len(), first.field("etag")), (201, size, Some("\"7\"")));
            assert_eq!(first.field("idempotency-retention"), Some("86400"));
            let replay = send(&router, post("1", "")).await;
            assert_eq!((replay.status(), replay.is_replay(), runs.count()), (201, true, 1));
            assert_eq!(replay.problem_type(), "idempotency-answer-not-kept");
            assert_eq!(replay.field("location"), Some("/orders/7"), "what is true without the body");
            assert_eq!(replay.field("etag"), None);
        }
    }
}

#[tokio::test]
async fn headers_beyond_their_bound_are_not_kept_and_the_body_is_not_either() {
    let (router, runs) = app(builder(orders(&memory().await)), |_, _| async {
        let mut answer = (StatusCode::ACCEPTED, "done").into_response();
        for _ in 0..5 {
            let link = HeaderValue::from_bytes(&[b'x'; 4096]).unwrap();
            answer.headers_mut().append("link", link);
        }
        answer
    });
    assert_eq!(send(&router, post("1", "")).await.text(), "done");
    let replay = send(&router, post("1", "")).await;
    assert_eq!((replay.status(), replay.problem_type()), (202, "idempotency-answer-not-kept".to_owned()));
    assert_eq!((replay.field("link"), runs.count()), (None, 1));
}

#[tokio::test]
async fn c35_a_gigabyte_passes_with_no_more_than_the_cap_in_memory() {
    let given = Arc::new(AtomicUsize::new(0));
    let giving = given.clone();
    let (router, runs) = app(builder(orders(&memory().await)), move |_, _| {
        let given = giving.clone();
        async move { Response::new(Body::new(Pieces { left: GIGABYTE, size: PIECE, given, breaks: false })) }
    });
    let answer = head(&router, post("1", "")).await;
    let read = given.load(Ordering::SeqCst) * PIECE;
    assert!(read <= 256 * 1024 + PIECE, "{read} bytes were read before anybody asked for them");
    let (mut body, mut bytes) = (answer.into_body(), 0);
    let mut most = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.unwrap().into_data().unwrap().len();
        most = most.max(given.load(Ordering::SeqCst) * PIECE - bytes);
    }
    assert_eq!(bytes, 1 << 30);
    assert!(most <= 256 * 1024 + PIECE, "{most} bytes were held");
    assert_eq!(send(&router, post("1", "")).await.problem_type(), "idempotency-answer-not-kept");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn c35_events_pass_at_once_and_a_second_request_does_not_start_them_again() {
    let (sender, receiver) = mpsc::unbounded_channel::<Bytes>();
    let receiver = Arc::new(parking_lot::Mutex::new(Some(receiver)));
    let (router, runs) = app(builder(orders(&memory().await)), move |_, _| {
        let mut receiver = receiver.lock().take().unwrap();
        async move {
            let events = futures_util::stream::poll_fn(move |context| {
                receiver
                    .poll_recv(context)
                    .map(|event| event.map(|event| Ok::<_, Infallible>(http_body::Frame::data(event))))
            });
            ([("content-type", "text/event-stream")], Body::new(StreamBody::new(events)))
        }
    });
    let answer = tokio::time::timeout(LIMIT, head(&router, post("1", ""))).await;
    let mut body = answer.expect("the head goes out before the first event").into_body();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        sender.send(Bytes::from(event)).unwrap();
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame, event, "before the next one is there");
    }
    let second = send(&router, post("1", "")).await;
    assert_eq!((second.status(), second.problem_type()), (200, "idempotency-answer-not-kept".to_owned()));
    assert!(second.is_replay() && runs.count() == 1);
}

/// Echoes how much it got.
async fn measuring() -> (Router, Runs) {
    app(builder(orders(&memory().await)).max_request(CAP), |_, request: axum::extract::Request| async {
        request.into_body().collect().await.unwrap().to_bytes().len().to_string()
    })
}

#[tokio::test]
async fn requests_are_read_up_to_the_cap_and_refused_beyond_it() {
    for size in [0, 1, CAP - 1, CAP, CAP + 1, 10 * CAP] {
        for has_length in [true, false] {
            let (router, runs) = measuring().await;
            let body = if has_length {
                Body::new(Full::from(vec![b'x'; size]))
            } else {
                Body::new(pieces(size, 1).0)
            };
            let answer = send(&router, post("1", body)).await;
            if size <= CAP {
                assert_eq!((answer.status(), answer.text()), (200, &*size.to_string()));
            } else {
                assert_eq!(
                    (answer.status(), answer.problem_type()),
                    (413, "idempotency-body-too-large".to_owned())
                );
                assert_eq!(runs.count(), 0);
            }
        }
    }
}

#[tokio::test]
async fn of_a_gigabyte_sent_no_more_than_the_cap_is_read() {
    let (router, runs) = numbered(builder(orders(&memory().await)));
    let (body, given) = pieces(GIGABYTE, PIECE);
    assert_eq!(send(&router, post("1", Body::new(body))).await.status(), 413);
    let read = given.load(Ordering::SeqCst) * PIECE;
    assert!(read <= 1024 * 1024 + PIECE, "{read} bytes");
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_request_that_breaks_off_is_refused_and_nothing_runs() {
    let (router, runs) = numbered(builder(orders(&memory().await)));
    let (mut body, _) = pieces(3, 1);
    body.breaks = true;
    assert_eq!(send(&router, post("1", Body::new(body))).await.problem_type(), "idempotency-body-unreadable");
    assert_eq!(send(&router, post("1", "xxx")).await.text(), "run 1", "the key is free");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn settings_out_of_their_bounds_are_told_at_the_start() {
    let once = orders(&memory().await);
    let shared = || IdempotencyLayer::builder(once.clone()).shared_scope();
    assert!(shared().max_answer(MAX_ANSWER).build().is_ok());
    let error = shared().max_answer(MAX_ANSWER + 1).build().unwrap_err().to_string();
    assert!(error.contains("at most"), "{error}");
    for once in [
        once.clone().lease(secs(0)),
        once.clone().retain(secs(0)),
        once.clone().on_crash(OnCrash::Hold(secs(0))),
    ] {
        assert!(IdempotencyLayer::builder(once.clone()).shared_scope().build().is_err(), "{once:?}");
    }
    assert!(shared().methods([]).build().unwrap_err().to_string().contains("no method"));
}
