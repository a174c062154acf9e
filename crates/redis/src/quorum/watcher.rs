//! Being told of changes by several servers.

use std::time::Duration;

use futures_util::future::select_all;
use lockkeeper_core::Keys;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::QuorumStore;
use super::ledger::Nodes;
use crate::node::Lane;
use crate::wake::Watcher;

/// How long the first notice waits for those of a majority: a try before them finds most servers still taken.
const GATHER: Duration = Duration::from_millis(2);

/// Wants to be told when one of its keys changed at a server of the majority; until it is dropped.
#[derive(Debug)]
pub struct QuorumWatcher {
    watchers: Vec<Watcher>,
    needed: usize,
    told: Mutex<Nodes>,
}

impl QuorumStore {
    /// Is told of changes of `keys`; see [`RedisStore::watcher`](crate::RedisStore::watcher).
    pub fn watcher(&self, keys: &Keys) -> QuorumWatcher {
        let watchers = self.shared.nodes.iter().filter_map(|node| node.on(Lane::Waiting).watcher(keys));
        QuorumWatcher {
            watchers: watchers.collect(),
            needed: self.shared.majority.needed(),
            told: Mutex::default(),
        }
    }

    /// A majority of the servers tells of changed keys.
    pub fn hears_changes(&self, keys: &Keys) -> bool {
        let hears = self.shared.nodes.iter().filter(|node| node.on(Lane::Waiting).hears_changes(keys));
        self.shared.majority.is_reached(hears.count())
    }

    /// So many servers refused to tell of changed keys that the others are no majority.
    pub fn may_not_hear(&self) -> bool {
        let may = self.shared.nodes.iter().filter(|node| !node.on(Lane::Waiting).may_not_hear());
        !self.shared.majority.is_reached(may.count())
    }
}

impl QuorumWatcher {
    /// Waits until one of the keys has, or may have, changed since the last call returned.
    ///
    /// # Cancel safety
    /// Yes: a change that nobody took is kept.
    pub async fn changed(&self) {
        if self.watchers.is_empty() {
            std::future::pending::<()>().await;
        }
        while self.told.lock().count() == 0 {
            self.hear().await;
        }
        let gather = async {
            while self.told.lock().count() < self.needed {
                self.hear().await;
            }
        };
        let _ = timeout(GATHER, gather).await;
        *self.told.lock() = Nodes::default();
    }

    async fn hear(&self) {
        let waits = self.watchers.iter().enumerate().map(|(node, watcher)| {
            Box::pin(async move {
                watcher.changed().await;
                // Before anything else can be awaited, so that it is not lost.
                let mut told = self.told.lock();
                *told = told.with(node);
            })
        });
        select_all(waits).await;
    }
}
