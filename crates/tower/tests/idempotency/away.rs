//! While the store is away.

use std::time::Duration;

use lockkeeper::{Keeper, OncePhase};
use lockkeeper_faults::{FaultProxy, RedisServer, ServerKind, available};
use lockkeeper_testkit::wait::until;

use crate::support::*;

#[tokio::test]
async fn c41_a_store_that_is_away_is_503_and_nothing_runs() {
    let (router, runs) = numbered(builder(orders(&away().await)));
    let refused = send(&router, post("1", "")).await;
    assert_eq!((refused.status(), refused.field("retry-after")), (503, Some("1")));
    assert_eq!(refused.problem_type(), "idempotency-unavailable");
    assert!(!refused.text().contains("127.0.0.1"), "nothing of the server: {}", refused.text());
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn whoever_opened_the_route_runs_unprotected_and_counts_it() {
    let layer = builder(orders(&away().await)).fail_open().build().unwrap();
    let runs = Runs::default();
    let counting = runs.clone();
    let handler = async move |request: axum::extract::Request| {
        assert!(request.extensions().get::<lockkeeper_tower::idempotency::Claim>().is_none());
        let body = axum::body::to_bytes(request.into_body(), 100).await.unwrap();
        format!("run {} of {}", counting.begin(), String::from_utf8_lossy(&body))
    };
    let router = axum::Router::new().route("/orders", axum::routing::post(handler).layer(layer.clone()));
    for run in 1..=3 {
        let answer = send(&router, post("1", "this")).await;
        assert_eq!((answer.status(), answer.text()), (200, &*format!("run {run} of this")));
        assert_eq!(answer.field("idempotency-retention"), None, "nothing is promised");
    }
    assert_eq!((runs.count(), layer.unprotected_runs()), (3, 3));
}

/// A record that this program does not know may say that it was run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_cannot_be_read_is_500_even_where_the_route_is_open_and_nobody_is_asked_to_repeat_it() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let keeper = Keeper::connect(&server.url()).await.unwrap();
    let layer = builder(orders(&keeper)).fail_open().build().unwrap();
    let key = layer.record_key(&post("1", "").into_parts().0).unwrap();
    server.command(&["SET", &format!("once:orders:{key}"), "once9 of another day"]).unwrap();
    let (router, runs) = numbered(builder(orders(&keeper)).fail_open());
    let refused = send(&router, post("1", "")).await;
    assert_eq!((refused.status(), refused.problem_type()), (500, "idempotency-unusable".to_owned()));
    assert_eq!((refused.field("retry-after"), runs.count()), (None, 0));
}

/// No answer came in time, so nobody knows whether the claim is there. What runs then has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_that_is_open_runs_unprotected_where_the_begin_got_no_answer_and_gives_back_what_it_may_have_claimed()
 {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let proxy = FaultProxy::start(([127, 0, 0, 1], server.port()).into()).unwrap();
    let direct = orders(&Keeper::connect(&server.url()).await.unwrap());
    let keeper = Keeper::builder().url(&proxy.url()).unwrap().response_timeout(Duration::from_millis(300));
    let keeper = keeper.connect().await.unwrap();
    let layer = builder(orders(&keeper)).fail_open().build().unwrap();
    let key = layer.record_key(&post("1", "").into_parts().0).unwrap();
    let (router, runs) = numbered(builder(orders(&keeper)).fail_open());
    // The server knows the scripts from now on.
    send(&router, post("another", "")).await;
    proxy.hold_replies();
    let answer = send(&router, post("1", "")).await;
    assert_eq!((answer.status(), answer.text(), answer.field("idempotency-retention")), (200, "run 2", None));
    let claimed = direct.inspect(&key).await.unwrap().map(|record| record.phase);
    assert_eq!(claimed, Some(OncePhase::Running), "the claim did arrive");
    proxy.release();
    until("it is given back", LIMIT, async || {
        direct.inspect(&key).await.unwrap().unwrap().phase == OncePhase::Open
    })
    .await;
    let again = send(&router, post("1", "")).await;
    assert_eq!((again.text(), again.is_replay(), runs.count()), ("run 3", false, 3), "nothing was promised");
}
