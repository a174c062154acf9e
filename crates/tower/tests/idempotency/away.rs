//! While the store is away.

use lockkeeper::Keeper;
use lockkeeper_faults::{RedisServer, ServerKind, available};

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
async fn a_record_that_cannot_be_read_is_503_even_where_the_route_is_open() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let keeper = Keeper::connect(&server.url()).await.unwrap();
    let layer = builder(orders(&keeper)).fail_open().build().unwrap();
    let key = layer.record_key(&post("1", "").into_parts().0).unwrap();
    server.command(&["SET", &format!("once:orders:{key}"), "once9 of another day"]).unwrap();
    let (router, runs) = numbered(builder(orders(&keeper)).fail_open());
    assert_eq!(send(&router, post("1", "")).await.problem_type(), "idempotency-unavailable");
    assert_eq!(runs.count(), 0);
}
