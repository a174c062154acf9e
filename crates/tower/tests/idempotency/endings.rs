//! The claim ends on every path: answer, error, panic, hang-up, loss.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use http::Response;
use lockkeeper::{Keeper, LossReason, OnCrash, Resolution};
use lockkeeper_testkit::drops::{drop_at_every_poll, poll_times};
use lockkeeper_testkit::wait::until;
use lockkeeper_tower::idempotency::{Claim, IdempotencyBody, KeptAnswer};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::*;

/// Panics when it runs for the first time.
fn panics_first(keeper: &Keeper, on_crash: OnCrash) -> (Router, Runs) {
    app(builder(orders(keeper).on_crash(on_crash)), |run, request: Request| async move {
        let claim = request.extensions().get::<Claim>().unwrap().clone();
        assert!(run > 1, "the first run breaks");
        format!("attempt {}, takeover {}", claim.attempt(), claim.is_takeover())
    })
}

async fn send_and_panic(router: &Router) {
    let router = router.clone();
    let ended = tokio::spawn(async move { send(&router, post("1", "")).await }).await;
    assert!(ended.unwrap_err().is_panic(), "the panic goes on in the caller");
}

/// The crash is recorded in the background.
async fn once_it_does_not_run(router: &Router) -> Answer {
    let last = Mutex::new(None);
    until("the crash is known", LIMIT, async || {
        let answer = send(router, post("1", "")).await;
        let is_running = answer.status() == 409 && answer.problem_type() == "idempotency-running";
        *last.lock() = Some(answer);
        !is_running
    })
    .await;
    last.into_inner().unwrap()
}

#[tokio::test]
async fn c17_a_panic_is_a_crash_and_the_next_one_runs_as_a_takeover() {
    let (router, runs) = panics_first(&memory().await, OnCrash::Rerun);
    send_and_panic(&router).await;
    let answer = once_it_does_not_run(&router).await;
    assert_eq!((answer.text(), runs.count()), ("attempt 2, takeover true", 2));
}

#[tokio::test]
async fn c8_a_crash_that_is_held_is_an_unknown_outcome_until_an_operator_resolves_it() {
    let keeper = memory().await;
    let once = orders(&keeper);
    let (router, runs) = panics_first(&keeper, OnCrash::Hold(secs(3600)));
    send_and_panic(&router).await;
    let held = once_it_does_not_run(&router).await;
    assert_eq!((held.status(), held.problem_type()), (409, "idempotency-outcome-unknown".to_owned()));
    assert_eq!(held.field("retry-after"), None, "waiting does not help");

    let layer = builder(once.clone()).build().unwrap();
    let key = layer.record_key(&post("1", "").into_parts().0).unwrap();
    let fence = once.inspect(&key).await.unwrap().unwrap().fence;
    let answer = KeptAnswer::new(http::StatusCode::CREATED, "found in the books");
    once.resolve(&key, fence, Resolution::Completed(answer.to_stored().unwrap())).await.unwrap();
    let resolved = send(&router, post("1", "")).await;
    assert_eq!((resolved.status(), resolved.text(), resolved.is_replay()), (201, "found in the books", true));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn what_an_operator_wrote_and_is_no_answer_is_done_all_the_same() {
    let keeper = memory().await;
    let once = orders(&keeper);
    let (router, runs) = panics_first(&keeper, OnCrash::Hold(secs(3600)));
    send_and_panic(&router).await;
    once_it_does_not_run(&router).await;
    let key = builder(once.clone()).build().unwrap().record_key(&post("1", "").into_parts().0).unwrap();
    let fence = once.inspect(&key).await.unwrap().unwrap().fence;
    let stored = lockkeeper::Stored::whole(&b"order 7"[..]).unwrap();
    once.resolve(&key, fence, Resolution::Completed(stored)).await.unwrap();
    let answer = send(&router, post("1", "")).await;
    assert_eq!((answer.status(), answer.problem_type()), (409, "idempotency-answer-not-kept".to_owned()));
    assert!(answer.is_replay() && runs.count() == 1);
}

#[tokio::test]
async fn c17_an_error_of_the_service_within_is_a_crash_and_is_passed_on() {
    let runs = Runs::default();
    let counting = runs.clone();
    let inner = service_fn(move |_: Request<IdempotencyBody<Body>>| {
        let run = counting.begin();
        async move { if run == 1 { Err("broken") } else { Ok(Response::new(Body::from(format!("run {run}")))) } }
    });
    let service = builder(orders(&memory().await)).build().unwrap().layer(inner);
    assert_eq!(service.clone().oneshot(post("1", "")).await.unwrap_err(), "broken");
    until("it runs again", LIMIT, async || {
        service.clone().oneshot(post("1", "")).await.unwrap().status() == 200
    })
    .await;
    assert_eq!(runs.count(), 2);
}

/// The client goes away at every point; what has begun goes on, and its answer is found again.
#[tokio::test]
async fn c62_a_client_that_hangs_up_at_any_time_finds_the_answer_later_and_nothing_runs_twice() {
    let keeper = memory().await;
    let (router, runs) = app(builder(orders(&keeper)), |run, _| async move {
        tokio::task::yield_now().await;
        format!("run {run}")
    });
    let key = std::cell::Cell::new(0);
    let polls = drop_at_every_poll(
        || {
            key.set(key.get() + 1);
            send(&router, post(&key.get().to_string(), ""))
        },
        async |_, _| {
            let ran_before = runs.count();
            let last = Mutex::new(None);
            until("an answer", LIMIT, async || {
                let answer = send(&router, post(&key.get().to_string(), "")).await;
                let is_done = answer.status() == 200;
                *last.lock() = Some(answer);
                is_done
            })
            .await;
            let answer = last.into_inner().unwrap();
            let number: usize = answer.text().strip_prefix("run ").unwrap().parse().unwrap();
            assert_eq!(number, key.get(), "each key ran once: {ran_before} before");
            assert_eq!(runs.count(), key.get());
        },
    )
    .await;
    assert!(polls > 1, "it was dropped while it ran");
}

#[tokio::test]
async fn c13_a_handler_is_told_of_the_loss_and_its_late_answer_is_not_kept() {
    let keeper = memory().await;
    let told: Arc<Mutex<Vec<LossReason>>> = Arc::default();
    let (gate, losses) = (Arc::new(Semaphore::new(0)), told.clone());
    let waiting = gate.clone();
    // Nothing renews it for longer than 200 ms: this takes so much real time.
    let once = orders(&keeper).lease(secs(1)).max_hold(std::time::Duration::from_millis(200));
    let (router, runs) = app(builder(once), move |run, request: Request| {
        let (gate, told) = (waiting.clone(), losses.clone());
        async move {
            let claim = request.extensions().get::<Claim>().unwrap().clone();
            if run == 1 {
                assert!(claim.is_valid());
                let reason = claim.lost().await;
                assert!(!claim.is_valid() && claim.loss() == Some(reason.clone()));
                told.lock().push(reason);
                gate.acquire().await.unwrap().forget();
            }
            format!("run {run}, fence {}", claim.fence())
        }
    });
    let first = tokio::spawn({
        let router = router.clone();
        async move { send(&router, post("1", "")).await }
    });
    until("the handler is told", LIMIT, async || !told.lock().is_empty()).await;
    let second = once_it_does_not_run(&router).await;
    assert!(second.text().starts_with("run 2, fence "), "{second:?}");
    gate.add_permits(1);
    let late = first.await.unwrap();
    assert_eq!((late.status(), late.problem_type()), (503, "idempotency-attempt-lost".to_owned()));
    assert_eq!(late.field("retry-after"), Some("1"));
    let third = send(&router, post("1", "")).await;
    assert_eq!((third.text(), third.is_replay(), runs.count()), (second.text(), true, 2));
}

#[tokio::test]
async fn c17_a_body_that_breaks_off_is_a_crash_and_never_half_an_answer() {
    let (router, runs) = app(builder(orders(&memory().await)), |run, _| async move {
        let (mut body, _) = pieces(2, 10);
        body.breaks = run == 1;
        Response::new(Body::new(body))
    });
    let broken = head(&router, post("1", "")).await;
    assert_eq!(broken.status(), 200, "the client sees what it would see without the layer");
    let error = axum::body::to_bytes(broken.into_body(), 100).await.unwrap_err();
    assert!(format!("{error:?}").contains("broken off"), "{error:?}");
    let second = once_it_does_not_run(&router).await;
    assert_eq!((second.body.len(), second.is_replay(), runs.count()), (20, false, 2));
    assert_eq!(send(&router, post("1", "")).await.body.len(), 20);
}

#[tokio::test]
async fn a_handler_that_keeps_its_claim_does_not_keep_it_alive() {
    let kept: Arc<Mutex<Vec<Claim>>> = Arc::default();
    let keeping = kept.clone();
    let (router, runs) = app(builder(orders(&memory().await)), move |run, request: Request| {
        keeping.lock().push(request.extensions().get::<Claim>().unwrap().clone());
        async move {
            assert!(run > 1, "the first run breaks");
            format!("run {run}")
        }
    });
    send_and_panic(&router).await;
    assert_eq!(once_it_does_not_run(&router).await.text(), "run 2");
    assert_eq!((runs.count(), kept.lock()[0].is_valid()), (2, false));
}

#[tokio::test]
async fn the_caller_s_span_is_the_handler_s() {
    use tracing::Instrument as _;
    use tracing::instrument::WithSubscriber as _;
    let inner = service_fn(|_: Request<IdempotencyBody<Body>>| async {
        let name = tracing::Span::current().metadata().map(tracing::Metadata::name);
        Ok::<_, Infallible>(Response::new(Body::from(format!("{name:?}"))))
    });
    let service = builder(orders(&memory().await)).build().unwrap().layer(inner);
    let work = async {
        let answer =
            service.oneshot(post("1", "")).instrument(tracing::info_span!("the_request")).await.unwrap();
        read(answer.map(Body::new)).await
    };
    let answer = work.with_subscriber(tracing_subscriber::fmt().with_writer(std::io::sink).finish()).await;
    assert_eq!(answer.text(), "Some(\"the_request\")");
}

/// Nobody waits for its answer any more but who ends the process.
#[tokio::test]
async fn whoever_ends_the_process_can_wait_for_what_still_runs_after_a_hang_up() {
    let keeper = memory().await;
    let gate = Arc::new(Semaphore::new(0));
    let waiting = gate.clone();
    let runs = Runs::default();
    let counting = runs.clone();
    let handler = async move |_: Request| {
        let run = counting.begin();
        waiting.acquire().await.unwrap().forget();
        format!("run {run}")
    };
    let layer = builder(orders(&keeper)).build().unwrap();
    let router = Router::new().route("/orders", axum::routing::post(handler).layer(layer.clone()));
    assert!(poll_times(layer.drained(), 1).await.is_some(), "nothing runs yet");
    assert!(poll_times(send(&router, post("1", "")), 1).await.is_none(), "the client hangs up");
    until("it runs", LIMIT, async || runs.count() == 1).await;
    let mut drained = Box::pin(layer.drained());
    assert!(poll_times(&mut drained, 1).await.is_none(), "it runs");
    gate.add_permits(1);
    tokio::time::timeout(LIMIT, drained).await.expect("it has ended");
    let again = send(&router, post("1", "")).await;
    assert_eq!(
        (again.text(), again.is_replay(), runs.count()),
        ("run 1", true, 1),
        "and is recorded by then"
    );
}
