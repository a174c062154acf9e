//! Two requests with one key at the same time.

use std::sync::Arc;

use axum::Router;
use lockkeeper_testkit::wait::until;
use lockkeeper_tower::idempotency::IdempotencyBuilder;
use tokio::sync::Semaphore;

use crate::support::*;

/// Each run waits for the gate, and each first run can be awaited.
fn gated(builder: IdempotencyBuilder) -> (Router, Runs, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let waiting = gate.clone();
    let (router, runs) = app(builder, move |run, _| {
        let gate = waiting.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            (http::StatusCode::CREATED, format!("run {run}"))
        }
    });
    (router, runs, gate)
}

async fn until_it_runs(runs: &Runs) {
    until("the first one runs", LIMIT, async || runs.count() == 1).await;
}

#[tokio::test]
async fn c1_c2_c5_c19_while_one_runs_others_are_told_to_wait_and_later_ones_get_its_answer() {
    let (keeper, _clock) = stepped().await;
    let (router, runs, gate) = gated(builder(orders(&keeper).lease(secs(30))));
    let first = tokio::spawn({
        let router = router.clone();
        async move { send(&router, post("1", "")).await }
    });
    until_it_runs(&runs).await;
    let second = send(&router, post("1", "")).await;
    assert_eq!((second.status(), second.problem_type()), (409, "idempotency-running".to_owned()));
    let wait: u64 = second.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    assert_eq!(send(&router, post("1", "different")).await.status(), 422, "also while it runs");
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status(), 201);
    let third = send(&router, post("1", "")).await;
    assert_eq!((third.status(), third.text(), third.is_replay()), (201, "run 1", true));
    assert_eq!(runs.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c1_of_fifty_at_once_one_runs() {
    let (router, runs) = numbered(builder(orders(&memory().await)));
    let all: Vec<_> = (0..50)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move { send(&router, post("1", "")).await })
        })
        .collect();
    for one in all {
        let answer = one.await.unwrap();
        assert!(answer.status() == 409 || answer.text() == "run 1", "{answer:?}");
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn c1_whoever_waits_gets_the_answer_of_the_one_that_runs() {
    let (router, runs, gate) = gated(builder(orders(&memory().await)).wait(LIMIT));
    let both: Vec<_> = (0..2)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move { send(&router, post("1", "")).await })
        })
        .collect();
    until_it_runs(&runs).await;
    gate.add_permits(1);
    let mut replays = 0;
    for one in both {
        let answer = one.await.unwrap();
        assert_eq!((answer.status(), answer.text()), (201, "run 1"));
        replays += usize::from(answer.is_replay());
    }
    assert_eq!((runs.count(), replays), (1, 1));
}
