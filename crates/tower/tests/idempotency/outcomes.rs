//! Which outcomes are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use axum::Router;
use axum::response::IntoResponse as _;
use http::StatusCode;
use lockkeeper::OnCrash;
use lockkeeper_testkit::wait::until;
use lockkeeper_tower::idempotency::{IdempotencyBuilder, Outcome};

use crate::support::*;

/// Answers with the status that is set.
fn with_status(builder: IdempotencyBuilder) -> (Router, Runs, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let shown = status.clone();
    let (router, runs) = app(builder, move |run, _| {
        let status = StatusCode::from_u16(shown.load(Ordering::SeqCst)).unwrap();
        async move { (status, format!("run {run}")) }
    });
    (router, runs, status)
}

#[tokio::test]
async fn c20_after_503_the_key_is_open_at_once_also_for_a_different_request() {
    for failure in [500, 502, 503, 401, 407, 408, 425, 429] {
        let (router, runs, status) = with_status(builder(orders(&memory().await)));
        status.store(failure, Ordering::SeqCst);
        let failed = send(&router, post("1", "this")).await;
        assert_eq!((failed.status(), failed.text()), (failure, "run 1"));
        assert_eq!(failed.field("idempotency-retention"), None, "nothing is kept");
        status.store(200, Ordering::SeqCst);
        let second = send(&router, post("1", "that")).await;
        assert_eq!((second.status(), second.text(), second.is_replay()), (200, "run 2", false));
        assert_eq!(runs.count(), 2);
    }
}

#[tokio::test]
async fn refusals_of_the_handler_are_kept() {
    for refusal in [400, 403, 404, 409, 422] {
        let (router, runs, status) = with_status(builder(orders(&memory().await)));
        status.store(refusal, Ordering::SeqCst);
        send(&router, post("1", "")).await;
        status.store(200, Ordering::SeqCst);
        let again = send(&router, post("1", "")).await;
        assert_eq!((again.status(), again.is_replay(), runs.count()), (refusal, true, 1));
    }
}

#[tokio::test]
async fn c20_a_route_that_stores_all_replays_the_503_with_its_marker() {
    let (router, runs, status) = with_status(builder(orders(&memory().await)).store_all());
    status.store(503, Ordering::SeqCst);
    send(&router, post("1", "")).await;
    status.store(200, Ordering::SeqCst);
    let again = send(&router, post("1", "")).await;
    assert_eq!((again.status(), again.text(), again.is_replay(), runs.count()), (503, "run 1", true, 1));
}

#[tokio::test]
async fn a_predicate_decides_instead() {
    let only_created =
        builder(orders(&memory().await)).store_if(|answer| answer.status == StatusCode::CREATED);
    let (router, runs, status) = with_status(only_created);
    send(&router, post("1", "")).await;
    status.store(201, Ordering::SeqCst);
    send(&router, post("1", "")).await;
    assert!(send(&router, post("1", "")).await.is_replay());
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_handler_decides_for_its_answer() {
    for (declared, status) in [(Outcome::Kept, 500), (Outcome::NoEffect, 200), (Outcome::HeadKept, 201)] {
        let (router, runs) = app(builder(orders(&memory().await)), move |run, _| async move {
            let mut answer = (StatusCode::from_u16(status).unwrap(), format!("run {run}")).into_response();
            answer.extensions_mut().insert(declared);
            answer
        });
        assert_eq!(send(&router, post("1", "")).await.text(), "run 1");
        let again = send(&router, post("1", "")).await;
        assert_eq!(again.status(), status);
        match declared {
            Outcome::Kept => assert_eq!((again.text(), runs.count()), ("run 1", 1)),
            Outcome::NoEffect => assert_eq!((again.text(), runs.count()), ("run 2", 2)),
            _ => {
                assert_eq!(again.problem_type(), "idempotency-answer-not-kept");
                assert_eq!(runs.count(), 1);
            }
        }
    }
}

#[tokio::test]
async fn c8_an_answer_that_may_have_had_its_effect_is_a_crash_if_the_route_says_so() {
    let held = orders(&memory().await).on_crash(OnCrash::Hold(secs(3600)));
    let careful = builder(held).outcome_by(|answer| match answer.status.is_server_error() {
        true => Outcome::Crashed,
        false => Outcome::Kept,
    });
    let (router, runs, status) = with_status(careful);
    status.store(500, Ordering::SeqCst);
    assert_eq!(send(&router, post("1", "")).await.text(), "run 1");
    until("the crash is known", LIMIT, async || {
        send(&router, post("1", "")).await.problem_type() == "idempotency-outcome-unknown"
    })
    .await;
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn c8_under_the_policy_hold_a_server_that_failed_is_a_crash_by_itself_and_nothing_runs_until_it_is_resolved()
 {
    for store_if in [false, true] {
        let once = orders(&memory().await).on_crash(OnCrash::Hold(secs(3600)));
        let held = builder(once);
        let held = if store_if { held.store_if(|answer| answer.status.is_success()) } else { held };
        let (router, runs, status) = with_status(held);
        status.store(500, Ordering::SeqCst);
        assert_eq!(send(&router, post("1", "")).await.text(), "run 1");
        until("the crash is known", LIMIT, async || {
            send(&router, post("1", "")).await.problem_type() == "idempotency-outcome-unknown"
        })
        .await;
        assert_eq!(send(&router, post("1", "other")).await.status(), 422, "the key is still that request's");
        assert_eq!(runs.count(), 1);

        for not_now in [503, 429, 401] {
            status.store(not_now, Ordering::SeqCst);
            assert_eq!(send(&router, post("2", "")).await.status(), not_now);
        }
        assert_eq!(runs.count(), 4, "these had no effect");
    }
}

#[tokio::test]
async fn a_replay_without_its_body_says_nothing_in_the_body_where_there_may_be_none() {
    for (status, expected) in [(204, 204), (304, 304), (101, 409)] {
        let (router, runs) = app(builder(orders(&memory().await)), move |_, _| async move {
            let mut answer = StatusCode::from_u16(status).unwrap().into_response();
            answer.extensions_mut().insert(Outcome::HeadKept);
            answer
        });
        send(&router, post("1", "")).await;
        let replay = send(&router, post("1", "")).await;
        assert_eq!((replay.status(), replay.is_replay(), runs.count()), (expected, true, 1));
        assert_eq!(replay.body.is_empty(), expected != 409, "{replay:?}");
    }
}
