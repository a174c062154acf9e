//! What these tests share.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::core::{ManualClock, MemoryStore};
use lockkeeper::{Attempt, Begun, Fingerprint, Keeper, LossReason, Once, Replay, Stored, fingerprint};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::wait::until;
use tokio::task::JoinHandle;

use crate::support::{SOON, command};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Of the request that is usually sent.
pub(crate) fn request() -> Fingerprint {
    fingerprint::of_bytes("the request")
}

pub(crate) fn whole(result: &str) -> Stored {
    Stored::whole(result.as_bytes()).unwrap()
}

pub(crate) async fn begin(once: &Once, key: &str) -> Begun {
    once.begin(key, request()).await.unwrap()
}

/// The claim of `key`, which nobody runs.
pub(crate) async fn claim(once: &Once, key: &str) -> Attempt {
    match begin(once, key).await {
        Begun::Claimed(attempt) => attempt,
        other => panic!("not claimed: {other:?}"),
    }
}

/// The result of `key`, which has been completed.
pub(crate) async fn replay(once: &Once, key: &str) -> Replay {
    match begin(once, key).await {
        Begun::Completed(replay) => replay,
        other => panic!("not completed: {other:?}"),
    }
}

/// How long the attempt of `key`, which runs, may go on.
pub(crate) async fn running(once: &Once, key: &str) -> Duration {
    match begin(once, key).await {
        Begun::Running { retry_after, .. } => retry_after,
        other => panic!("not running: {other:?}"),
    }
}

pub(crate) fn waits(once: &Once, key: &str) -> JoinHandle<Begun> {
    let (once, key) = (once.clone(), key.to_owned());
    tokio::spawn(async move { begin(&once, &key).await })
}

pub(crate) async fn ends<T>(task: JoinHandle<T>) -> T {
    tokio::time::timeout(SOON * 2, task).await.expect("it ends").unwrap()
}

pub(crate) async fn lost(attempt: &Attempt) -> LossReason {
    tokio::time::timeout(SOON, attempt.lost()).await.expect("it is lost")
}

/// So many callers of `keeper` wait.
pub(crate) async fn in_line(keeper: &Keeper, count: usize) {
    until(&format!("{count} in line"), SOON, async || keeper.health().await.waiting == count).await;
}

/// Nothing runs, waits, or is being ended.
pub(crate) async fn idle(keeper: &Keeper, when: &str) {
    until(&format!("idle {when}"), SOON, async || {
        let health = keeper.health().await;
        health.running + health.waiting + health.giving_back == 0
    })
    .await;
}

/// Two keepers on one store, as two processes would be.
pub(crate) async fn two() -> (Keeper, Keeper, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let keeper =
        async || Keeper::builder().memory_store(store.clone()).clock(clock.clone()).connect().await.unwrap();
    (keeper().await, keeper().await, clock)
}

/// A keeper whose compensations end soon: when the abandoned request's time has passed.
pub(crate) async fn impatient(url: &str) -> Keeper {
    Keeper::builder().url(url).unwrap().response_timeout(Duration::from_millis(300)).connect().await.unwrap()
}

/// The record of `key`, byte by byte.
pub(crate) fn record(server: &RedisServer, key: &str) -> Option<Vec<u8>> {
    command(server, &["GET", key]).as_bytes().map(<[u8]>::to_vec)
}
