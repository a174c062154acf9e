//! What becomes of an answer when the store cannot take it: on a real server.

use std::sync::Arc;

use axum::Router;
use lockkeeper::{Keeper, OncePhase};
use lockkeeper_faults::{FaultProxy, RedisServer, ServerKind, available};
use lockkeeper_testkit::wait::until;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::support::*;

/// A request that runs until the gate is opened.
struct Running {
    router: Router,
    runs: Runs,
    gate: Arc<Semaphore>,
    answer: JoinHandle<Answer>,
}

impl Running {
    async fn on(url: &str) -> Self {
        let keeper = Keeper::connect(url).await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let waiting = gate.clone();
        let (router, runs) = app(builder(orders(&keeper)), move |run, _| {
            let gate = waiting.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                format!("run {run}")
            }
        });
        let sent = router.clone();
        let answer = tokio::spawn(async move { send(&sent, post("1", "")).await });
        until("it runs", LIMIT, async || runs.count() == 1).await;
        Self { router, runs, gate, answer }
    }

    async fn ended(self) -> (Answer, Router, Runs, Arc<Semaphore>) {
        self.gate.add_permits(1);
        (self.answer.await.unwrap(), self.router, self.runs, self.gate)
    }
}

fn server() -> Option<RedisServer> {
    available(ServerKind::Redis).then(|| RedisServer::builder().start().unwrap())
}

/// The answer to the recording is late, and then lost with its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_c17_nothing_is_sent_before_it_is_known_to_be_recorded_and_a_lost_reply_is_asked_for_again() {
    let Some(server) = server() else { return };
    let proxy = FaultProxy::start(([127, 0, 0, 1], server.port()).into()).unwrap();
    let direct = orders(&Keeper::connect(&server.url()).await.unwrap());
    // From now on the server knows the scripts.
    send(&numbered(builder(direct.clone())).0, post("another", "")).await;
    let running = Running::on(&proxy.url()).await;
    proxy.hold_replies();
    running.gate.add_permits(1);
    let key = builder(direct.clone()).build().unwrap().record_key(&post("1", "").into_parts().0).unwrap();
    let is_recorded = async || direct.inspect(&key).await.unwrap().unwrap().phase == OncePhase::Completed;
    until("the server has recorded it", LIMIT, is_recorded).await;
    assert!(!running.answer.is_finished(), "nobody here knows that yet");
    proxy.cut_connections();
    proxy.release();
    let answer = running.answer.await.unwrap();
    assert_eq!((answer.status(), answer.text()), (200, "run 1"));
    assert!(answer.field("idempotency-retention").is_some(), "it is known to be recorded: {answer:?}");
    assert!(send(&running.router, post("1", "")).await.is_replay());
    assert_eq!(running.runs.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c40_a_record_that_was_evicted_is_not_created_anew_and_the_client_is_told() {
    let Some(server) = server() else { return };
    let running = Running::on(&server.url()).await;
    server.command(&["FLUSHALL"]).unwrap();
    let (lost, router, runs, gate) = running.ended().await;
    assert_eq!((lost.status(), lost.problem_type()), (409, "idempotency-record-lost".to_owned()));
    assert_eq!(lost.field("retry-after"), None, "its effect is there: nobody is asked to repeat it");
    assert!(lost.text().contains("sending it again carries it out again"), "{}", lost.text());
    assert_eq!(server.command(&["DBSIZE"]).unwrap().as_int(), Some(0));
    gate.add_permits(1);
    assert_eq!(
        (send(&router, post("1", "")).await.text(), runs.count()),
        ("run 2", 2),
        "nothing was remembered"
    );
}

/// Refused for good: it is done, so its answer goes out; it is not recorded, so nothing is promised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c41_an_answer_that_cannot_be_recorded_is_sent_and_promises_nothing() {
    let Some(server) = server() else { return };
    let running = Running::on(&server.url()).await;
    server.command(&["ACL", "SETUSER", "default", "-set"]).unwrap();
    let (answer, router, runs, _gate) = running.ended().await;
    assert_eq!((answer.status(), answer.text(), answer.field("idempotency-retention")), (200, "run 1", None));
    let again = send(&router, post("1", "")).await;
    assert!(matches!(again.status(), 409 | 503), "the claim is left to its lease: {again:?}");
    assert_eq!(runs.count(), 1);
}
