//! The same on a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::middleware::{Next, from_fn};
use lockkeeper::Keeper;
use lockkeeper_faults::{RedisServer, Reply, ServerKind, available};
use lockkeeper_testkit::wait::until;
use lockkeeper_tower::idempotency::Claim;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::support::*;

/// Two keepers stand for two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_c49_a_replay_is_real_across_processes_and_the_handler_ran_once() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let runs = Runs::default();
    let router = async || {
        let counting = runs.clone();
        let keeper = Keeper::connect(&server.url()).await.unwrap();
        app(builder(orders(&keeper)), move |_, _| {
            let run = counting.begin();
            async move { (http::StatusCode::CREATED, [("location", "/orders/7")], format!("run {run}\0\n")) }
        })
        .0
    };
    let (one, other) = (router().await, router().await);
    let first = send(&one, json("8e03978e", r#"{"a":1,"b":2}"#)).await;
    let second = send(&other, json("\"8e03978e\"", r#"{"b":2,"a":1}"#)).await;
    assert_eq!(
        (second.status(), second.text(), second.field("location")),
        (201, "run 1\0\n", Some("/orders/7"))
    );
    assert!(!first.is_replay() && second.is_replay());
    assert_eq!(send(&other, json("8e03978e", "{}")).await.status(), 422);
    assert_eq!(runs.count(), 1);

    let Reply::Array(keys) = server.command(&["KEYS", "*"]).unwrap() else { panic!("a list") };
    let keys: Vec<&str> = keys.iter().filter_map(Reply::as_str).collect();
    let [key] = keys[..] else { panic!("one record: {keys:?}") };
    assert!(key.starts_with("once:orders:") && key.len() == 12 + 64, "nothing of user or key: {key}");
    assert!(server.command(&["PTTL", key]).unwrap().as_int().unwrap() > 0);
}

/// The store answers later than in memory, so that the end is seen while it is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_was_wanted_is_no_loss() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let keeper = Keeper::connect(&server.url()).await.unwrap();
    for status in [200, 503] {
        let claims = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let keeping = claims.clone();
        let (router, _) = app(builder(orders(&keeper)), move |_, request: axum::extract::Request| {
            keeping.lock().push(request.extensions().get::<Claim>().unwrap().clone());
            async move {
                // The layer sees to losses from the first time that it waits for the handler.
                tokio::task::yield_now().await;
                http::StatusCode::from_u16(status).unwrap()
            }
        });
        assert_eq!(send(&router, post(&status.to_string(), "")).await.status(), status);
        let claim = claims.lock().pop().unwrap();
        assert_eq!((claim.is_valid(), claim.loss()), (false, None), "after {status}");
    }
}

/// Counts the futures that ended, whichever way.
struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The client closes its connection while the handler runs, after the effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c62_a_client_that_hangs_up_after_the_effect_finds_the_answer() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let keeper = Keeper::connect(&server.url()).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let waiting = gate.clone();
    let (router, runs) = app(builder(orders(&keeper)), move |run, _| {
        let gate = waiting.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            format!("run {run}")
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let counting = dropped.clone();
    let served = router.clone().layer(from_fn(move |request, next: Next| {
        let counted = OnDrop(counting.clone());
        async move {
            let _counted = counted;
            next.run(request).await
        }
    }));
    tokio::spawn(async move { axum::serve(listener, served).await });

    let request = "POST /orders HTTP/1.1\r\nhost: shop\r\nx-user: a\r\nidempotency-key: 1\r\n\
                   content-type: text/plain\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody";
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    until("it runs", LIMIT, async || runs.count() == 1).await;
    drop(connection);
    until("the server has noticed", LIMIT, async || dropped.load(Ordering::SeqCst) == 1).await;
    gate.add_permits(1);
    until("it is recorded", LIMIT, async || send(&router, post("1", "body")).await.status() == 200).await;

    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("run 1"), "{answer}");
    assert!(answer.contains("\r\nidempotent-replayed: true\r\n"), "{answer}");
    assert_eq!(runs.count(), 1);
}
