//! Answers whose bodies take their time: what is waited for, and for how long.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::Response;
use http_body::Frame;
use http_body_util::BodyExt as _;
use lockkeeper::{LossReason, Once};
use lockkeeper_testkit::drops::poll_times;
use lockkeeper_testkit::wait::until;
use lockkeeper_tower::IdempotencyLayer;
use lockkeeper_tower::idempotency::{Claim, IdempotencyBuilder};
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::support::*;

const WITHIN: Duration = Duration::from_millis(100);

/// Gives what it is sent, when it is sent; ends when the sender does.
struct Told(UnboundedReceiver<&'static str>);

impl http_body::Body for Told {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}

/// A route whose first answer begins with `begun`, and goes on when it is told to.
struct Stalled {
    router: Router,
    layer: IdempotencyLayer,
    runs: Runs,
    sender: Option<UnboundedSender<&'static str>>,
    claims: Arc<Mutex<Vec<Claim>>>,
}

fn stalled(builder: IdempotencyBuilder) -> Stalled {
    let (sender, receiver) = unbounded_channel();
    sender.send("begun").unwrap();
    let (runs, claims) = (Runs::default(), Arc::<Mutex<Vec<Claim>>>::default());
    let (counting, keeping, body) = (runs.clone(), claims.clone(), Arc::new(Mutex::new(Some(receiver))));
    let handler = async move |request: Request| {
        keeping.lock().push(request.extensions().get::<Claim>().unwrap().clone());
        let run = counting.begin();
        match body.lock().take() {
            Some(receiver) => Response::new(Body::new(Told(receiver))),
            None => Response::new(Body::from(format!("run {run}"))),
        }
    };
    let layer = builder.build().unwrap();
    let router = Router::new().route("/orders", axum::routing::post(handler).layer(layer.clone()));
    Stalled { router, layer, runs, sender: Some(sender), claims }
}

async fn quick() -> Stalled {
    stalled(builder(orders(&memory().await)).keep_within(WITHIN))
}

/// This takes as much real time as the layer waits.
#[tokio::test]
async fn c35_an_answer_that_stalls_goes_out_after_a_while_and_counts_as_carried_out() {
    let mut stalled = quick().await;
    let answer =
        tokio::time::timeout(LIMIT, head(&stalled.router, post("1", ""))).await.expect("in good time");
    assert_eq!(answer.headers()["idempotency-retention"], "86400", "that it was carried out is recorded");
    let replay = send(&stalled.router, post("1", "")).await;
    assert_eq!((replay.status(), replay.problem_type()), (200, "idempotency-answer-not-kept".to_owned()));
    let sender = stalled.sender.take().unwrap();
    sender.send(", and ended").unwrap();
    drop(sender);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "begun, and ended", "all of it, once");
    assert_eq!(stalled.runs.count(), 1);
}

#[tokio::test]
async fn an_answer_that_takes_its_time_within_the_bound_is_kept() {
    let mut stalled = stalled(builder(orders(&memory().await)));
    let answer = tokio::spawn({
        let router = stalled.router.clone();
        async move { send(&router, post("1", "")).await }
    });
    until("it runs", LIMIT, async || stalled.runs.count() == 1).await;
    assert!(!answer.is_finished(), "its body has not ended");
    drop(stalled.sender.take());
    assert_eq!(answer.await.unwrap().text(), "begun");
    let replay = send(&stalled.router, post("1", "")).await;
    assert_eq!((replay.text(), replay.is_replay()), ("begun", true));
}

/// Nobody is there who would read it.
#[tokio::test]
async fn c62_a_client_that_hangs_up_leaves_no_task_that_waits_for_a_stalled_answer() {
    let stalled = quick().await;
    assert!(poll_times(send(&stalled.router, post("1", "")), 1).await.is_none(), "the client hangs up");
    until("it runs", LIMIT, async || stalled.runs.count() == 1).await;
    tokio::time::timeout(LIMIT, stalled.layer.drained()).await.expect("it ends by itself");
    assert!(stalled.sender.as_ref().unwrap().is_closed(), "its body is dropped");
    let replay = send(&stalled.router, post("1", "")).await;
    assert_eq!(replay.problem_type(), "idempotency-answer-not-kept");
    assert_eq!(stalled.runs.count(), 1);
}

/// Nothing renews it for longer than this: so much real time.
fn short_lived(once: Once) -> Once {
    once.lease(secs(1)).max_hold(WITHIN)
}

#[tokio::test]
async fn c13_a_stalled_answer_is_not_waited_for_once_the_claim_is_lost() {
    let once = short_lived(orders(&memory().await));
    let stalled = stalled(builder(once).keep_within(secs(3600)));
    let answer =
        tokio::time::timeout(LIMIT, head(&stalled.router, post("1", ""))).await.expect("in good time");
    assert_eq!(answer.status(), 200, "nobody else has begun, so it is recorded after all");
    assert_eq!(stalled.claims.lock()[0].loss(), Some(LossReason::MaxHold));
    assert_eq!(send(&stalled.router, post("1", "")).await.problem_type(), "idempotency-answer-not-kept");
}
