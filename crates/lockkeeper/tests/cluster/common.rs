//! What these tests share.

use lockkeeper::redis::slot_of;
use lockkeeper::{Keeper, LockGuard};
use lockkeeper_faults::{ClusterServers, RedisServer, Reply, ServerKind, available};

use crate::support::secs;

/// Three primaries; `None` (after a loud line) where there is no binary.
pub(crate) fn three() -> Option<ClusterServers> {
    available(ServerKind::Redis).then(|| ClusterServers::minimal(&RedisServer::builder()).unwrap())
}

/// Three primaries with a replica each.
pub(crate) fn six() -> Option<ClusterServers> {
    available(ServerKind::Redis).then(|| ClusterServers::start(&RedisServer::builder()).unwrap())
}

pub(crate) async fn keeper(cluster: &ClusterServers) -> Keeper {
    Keeper::connect(&cluster.url()).await.unwrap()
}

/// The slot of a lock's key.
pub(crate) fn slot(name: &str) -> u16 {
    slot_of(format!("lock:{name}").as_bytes())
}

/// Names of locks, one whose key node 0 keeps, one of node 1, one of node 2.
pub(crate) fn one_on_each(stem: &str) -> [String; 3] {
    let share = |name: &str| usize::from(slot(name)) * 3 / 16_384;
    std::array::from_fn(|node| {
        (0..).map(|number| format!("{stem}-{number}")).find(|name| share(name) == node).unwrap()
    })
}

pub(crate) async fn hold(keeper: &Keeper, name: &str) -> LockGuard {
    keeper.lock(name).unwrap().lease(secs(3)).acquire().await.unwrap().or_busy().unwrap()
}

/// Asks the node that keeps it.
pub(crate) fn ask(cluster: &ClusterServers, name: &str, words: &[&str]) -> Reply {
    cluster.node_of(slot(name)).unwrap().command(words).unwrap()
}
