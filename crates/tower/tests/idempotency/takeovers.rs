//! An attempt after one that crashed, which does not succeed either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use axum::extract::Request;
use http::StatusCode;
use lockkeeper::{Keeper, Once};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_testkit::wait::until;
use lockkeeper_tower::idempotency::{Claim, Outcome};

use crate::support::*;

/// The first one crashes, the second one says that it had no effect: the first one may have had one all the same.
async fn a_crash_is_not_forgotten(once: Once) {
    let status = Arc::new(AtomicU16::new(500));
    let shown = status.clone();
    let crashing = builder(once).outcome_by(|answer| match answer.status.as_u16() {
        500 => Outcome::Crashed,
        503 => Outcome::NoEffect,
        _ => Outcome::Kept,
    });
    let (router, runs) = app(crashing, move |_, request: Request| {
        let claim = request.extensions().get::<Claim>().unwrap().clone();
        let status = StatusCode::from_u16(shown.load(Ordering::SeqCst)).unwrap();
        async move { (status, format!("attempt {}, takeover {}", claim.attempt(), claim.is_takeover())) }
    });
    assert_eq!(send(&router, post("1", "this")).await.text(), "attempt 1, takeover false");
    status.store(503, Ordering::SeqCst);
    // The crash is recorded in the background.
    until("it can be taken over", LIMIT, async || {
        let answer = send(&router, post("1", "this")).await;
        answer.status() == 503 && answer.text() == "attempt 2, takeover true"
    })
    .await;
    status.store(200, Ordering::SeqCst);
    assert_eq!(send(&router, post("1", "that")).await.status(), 422, "the key is still that request's");
    assert_eq!(send(&router, post("1", "this")).await.text(), "attempt 3, takeover true");
    assert_eq!(send(&router, post("1", "this")).await.text(), "attempt 3, takeover true");
    assert_eq!(runs.count(), 3);
}

#[tokio::test]
async fn c7_a_takeover_without_effect_does_not_open_the_key_for_other_requests() {
    a_crash_is_not_forgotten(orders(&memory().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_the_same_on_a_real_server() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    a_crash_is_not_forgotten(orders(&Keeper::connect(&server.url()).await.unwrap())).await;
}
