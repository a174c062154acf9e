//! What the tests of the front door share.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "these are tests")]

pub(crate) mod foreign;

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::core::{ManualClock, MemoryStore};
use lockkeeper::{Acquired, Error, Keeper, Limiter, Lock, LockGuard};
use lockkeeper_faults::{FaultProxy, RedisServer, Reply, ServerKind, available};
use lockkeeper_testkit::wait::until;
use tokio::task::JoinHandle;

/// Long enough for a limiter's decision on a machine that is busy.
pub(crate) const PATIENT: Duration = Duration::from_secs(10);

/// A bound for whatever should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(5);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A keeper on the memory store, both on one clock that the test steps.
pub(crate) async fn stepped() -> (Keeper, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let keeper = Keeper::builder().memory_store(store).clock(clock.clone()).connect().await.unwrap();
    (keeper, clock)
}

/// A real server; `None` (after a loud line) where there is no binary, a panic in CI.
pub(crate) fn server() -> Option<RedisServer> {
    available(ServerKind::Redis).then(|| RedisServer::builder().start().unwrap())
}

pub(crate) async fn keeper(server: &RedisServer) -> Keeper {
    Keeper::connect(&server.url()).await.unwrap()
}

/// Takes `name` for `lease`, not renewed.
pub(crate) async fn take(keeper: &Keeper, name: &str, lease: Duration) -> LockGuard {
    keeper.lock(name).unwrap().lease(lease).no_renewal().try_acquire().await.unwrap().or_busy().unwrap()
}

/// Somebody holds it. Looks without taking.
pub(crate) async fn is_busy(keeper: &Keeper, name: &str) -> bool {
    keeper.inspect(name).await.unwrap().holder.is_some()
}

pub(crate) fn command(server: &RedisServer, words: &[&str]) -> Reply {
    let reply = server.command(words).unwrap();
    assert!(!reply.is_error(), "{words:?}: {reply:?}");
    reply
}

pub(crate) fn exists(server: &RedisServer, key: &str) -> bool {
    command(server, &["EXISTS", key]).as_int() == Some(1)
}

/// Sum of `calls=` of these commands in `INFO commandstats`.
pub(crate) fn calls(server: &RedisServer, names: &[&str]) -> u64 {
    let info = command(server, &["INFO", "commandstats"]);
    let text = info.as_str().unwrap();
    let count = |name: &&str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
        line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    names.iter().map(count).sum()
}

/// Waits for `lock` on a task of its own.
pub(crate) fn waits(lock: Lock) -> JoinHandle<Result<Acquired, Error>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// The guard of a task that waited, within a bound that is not to be reached.
pub(crate) async fn got(task: JoinHandle<Result<Acquired, Error>>) -> LockGuard {
    let outcome = tokio::time::timeout(secs(20), task).await.expect("who waits gets an answer");
    outcome.unwrap().unwrap().or_busy().unwrap()
}

/// So many callers of `keeper` stand in its lines.
pub(crate) async fn in_line(keeper: &Keeper, count: usize) {
    until(&format!("{count} in line"), SOON, async || keeper.health().await.waiting == count).await;
}

/// The server knows of `count` who wait for `name`; so it has told them busy.
pub(crate) async fn noted(looking: &Keeper, name: &str, count: u64) {
    let waiting = async || looking.inspect(name).await.unwrap().waiting();
    until(&format!("{count} noted at {name}"), SOON, async || waiting().await == count).await;
}

pub(crate) fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_owned();
    times.sort_unstable();
    times[times.len() / 2]
}

/// No lock of ours on the server, and nothing held, waited for or being given back.
pub(crate) async fn nothing_left(server: &RedisServer, keeper: &Keeper, when: impl Display) {
    until(&format!("nothing is left {when}"), SOON, async || {
        let health = keeper.health().await;
        let keys = command(server, &["KEYS", "lock:[^~]*"]);
        let work = health.held + health.waiting + health.degraded + health.giving_back;
        keys.as_array().unwrap().is_empty() && work == 0
    })
    .await;
}

/// Whatever `keeper` gives back has been given back.
pub(crate) async fn quiet(keeper: &Keeper) {
    until("nothing is being given back", SOON, async || keeper.health().await.giving_back == 0).await;
}

/// Steps once those who sleep have set their alarms.
pub(crate) async fn step(clock: &Arc<ManualClock>, by: Duration) {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    clock.advance(by);
}

/// A proxy before `server`.
pub(crate) fn proxied(server: &RedisServer) -> FaultProxy {
    FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap()
}

/// How many scripts the server was asked to run.
pub(crate) fn scripts(server: &RedisServer) -> u64 {
    calls(server, &["evalsha", "eval"])
}

/// The one key that matches.
pub(crate) fn only_key(server: &RedisServer, pattern: &str) -> String {
    let keys = command(server, &["KEYS", pattern]);
    assert_eq!(keys.as_array().unwrap().len(), 1, "{keys:?}");
    keys.as_array().unwrap()[0].as_str().unwrap().to_owned()
}

/// What a call by `subject` could take at once.
pub(crate) async fn remaining(limiter: &Limiter, subject: &str) -> u64 {
    limiter.peek(subject, 1).await.unwrap().remaining()
}
