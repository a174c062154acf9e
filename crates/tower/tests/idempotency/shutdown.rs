//! The runtime ends while a request runs.

use lockkeeper_testkit::wait::until;

use crate::support::*;

/// Whoever waits is outside of the runtime, and outlives it.
#[test]
fn whoever_waits_while_the_runtime_ends_is_told_that_the_request_was_cut_off_and_a_later_one_takes_over() {
    let waiting = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let keeper = waiting.block_on(memory());
    let ending = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (router, runs) = app(builder(orders(&keeper)), |_, _| std::future::pending::<()>());
    let handle = ending.handle().clone();
    let waits = std::thread::spawn(move || handle.block_on(send(&router, post("1", ""))));
    waiting.block_on(until("it runs", LIMIT, async || runs.count() == 1));
    ending.shutdown_background();
    let cut_off = waits.join().unwrap();
    assert_eq!((cut_off.status(), cut_off.problem_type()), (503, "idempotency-cut-off".to_owned()));
    assert_eq!(cut_off.field("retry-after"), Some("1"));

    let (router, runs) = app(builder(orders(&keeper)), |_, request: axum::extract::Request| {
        let is_takeover =
            request.extensions().get::<lockkeeper_tower::idempotency::Claim>().unwrap().is_takeover();
        async move { format!("takeover {is_takeover}") }
    });
    waiting.block_on(async {
        until("it crashed", LIMIT, async || send(&router, post("1", "")).await.status() == 200).await;
        let replay = send(&router, post("1", "")).await;
        assert_eq!((replay.text(), replay.is_replay(), runs.count()), ("takeover true", true, 1));
    });
}
