//! What these tests share.

use std::time::Instant;

use lockkeeper::{Error, Keeper, LockGuard};
use lockkeeper_faults::{RedisServer, SentinelGroup, SentinelGroupBuilder, ServerKind, available};

use crate::support::{ms, secs};

/// A group; `None` (after a loud line) where there is no binary, a panic in CI.
pub(crate) fn group(
    settings: impl FnOnce(SentinelGroupBuilder) -> SentinelGroupBuilder,
) -> Option<SentinelGroup> {
    let start = || settings(SentinelGroup::builder()).start().unwrap();
    available(ServerKind::Redis).then(|| blocking(start))
}

/// Does what blocks without stopping the runtime.
pub(crate) fn blocking<T>(what: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(what)
}

pub(crate) async fn keeper(group: &SentinelGroup) -> Keeper {
    Keeper::connect(&group.url()).await.unwrap()
}

pub(crate) async fn try_take(keeper: &Keeper, name: &str) -> Result<LockGuard, Error> {
    keeper.lock(name)?.lease(secs(10)).try_acquire().await?.or_busy()
}

/// Waits until one of `servers` takes writes; when that was.
pub(crate) async fn writable(servers: impl Iterator<Item = &RedisServer> + Clone) -> Instant {
    let deadline = Instant::now() + secs(60);
    loop {
        for server in servers.clone() {
            let answer = blocking(|| server.command(&["SET", "probe", "1", "EX", "60"]));
            if answer.is_ok_and(|answer| answer.as_str() == Some("OK")) {
                return Instant::now();
            }
        }
        assert!(Instant::now() < deadline, "no server takes writes");
        tokio::time::sleep(ms(2)).await;
    }
}
