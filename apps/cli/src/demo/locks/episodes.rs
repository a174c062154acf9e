//! What this process shows by itself, with two keepers on one store: waiting in line, and trouble.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Error, Keeper, KeeperBuilder, MemoryStore, SystemClock};

use super::metrics::Metrics;
use super::outcome::{Line, Trouble};
use super::{line, trouble};

/// Two keepers that know nothing of each other, as in two processes.
pub(super) struct Pair {
    pub(super) first: Keeper,
    pub(super) second: Keeper,
}

impl Pair {
    pub(super) async fn connect(builder: impl Fn() -> anyhow::Result<KeeperBuilder>) -> anyhow::Result<Self> {
        Ok(Self { first: builder()?.connect().await?, second: builder()?.connect().await? })
    }

    /// On a store inside this process.
    pub(super) async fn in_memory() -> Result<Self, Error> {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let builder = || Keeper::builder().memory_store(store.clone());
        Ok(Self { first: builder().connect().await?, second: builder().connect().await? })
    }
}

pub(super) async fn run(pair: Pair, metrics: &Metrics) -> anyhow::Result<(Line, Trouble)> {
    let seen = (line::run(&pair, metrics).await?, trouble::run(&pair, metrics).await?);
    pair.first.close(Duration::from_secs(1)).await;
    pair.second.close(Duration::from_secs(1)).await;
    Ok(seen)
}
