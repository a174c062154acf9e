//! What these tests share.

use std::time::Duration;

use lockkeeper::{Acquired, Durability, Error, ErrorKind, Keeper, LockGuard};
use lockkeeper_faults::{RedisServer, Replicated, ServerKind, available};
use lockkeeper_testkit::wait::until;

use crate::support::{SOON, command, exists, ms};

/// A step that is not met takes so long.
pub(crate) const LIMIT: Duration = ms(400);

/// A primary with so many replicas; `None` (after a loud line) where there is no binary.
pub(crate) fn group(replicas: usize) -> Option<Replicated> {
    available(ServerKind::Redis).then(|| Replicated::start(&RedisServer::builder(), replicas).unwrap())
}

/// A keeper whose steps have the usual two seconds.
pub(crate) async fn keeper(server: &RedisServer) -> Keeper {
    Keeper::connect(&server.url()).await.unwrap()
}

/// One for steps that are not going to be met.
pub(crate) async fn hasty(server: &RedisServer) -> Keeper {
    Keeper::builder().url(&server.url()).unwrap().response_timeout(LIMIT).connect().await.unwrap()
}

pub(crate) fn replicas(count: u32) -> Durability {
    Durability::replicas(count).unwrap()
}

pub(crate) async fn try_at(keeper: &Keeper, name: &str, level: Durability) -> Result<Acquired, Error> {
    keeper.lock(name).unwrap().durability(level).try_acquire().await
}

pub(crate) async fn take_at(keeper: &Keeper, name: &str, level: Durability) -> LockGuard {
    try_at(keeper, name, level).await.unwrap().or_busy().unwrap()
}

/// Who holds `lock:name`, on this server.
pub(crate) fn token_on(server: &RedisServer, name: &str) -> Option<String> {
    command(server, &["GET", &format!("lock:{name}")]).as_str().map(str::to_owned)
}

pub(crate) fn token_of(guard: &LockGuard) -> Option<String> {
    Some(String::from_utf8(guard.token().as_bytes().to_vec()).unwrap())
}

#[track_caller]
pub(crate) fn assert_unmet(error: &Error, acknowledged: u32, wanted: u32) {
    assert_eq!(error.kind(), ErrorKind::NotDurable { acknowledged, wanted }, "{error}");
    assert!(error.to_string().contains(&format!("{acknowledged} of {wanted} ")), "{error}");
}

/// It was given back.
pub(crate) async fn gone(server: &RedisServer, name: &str) {
    let key = format!("lock:{name}");
    until(&format!("{key} is gone"), SOON, async || !exists(server, &key)).await;
}
