//! rslock, another library for Tokio, with its defaults. It polls, and does not say whether a release released.

use std::time::Duration;

use anyhow::Result;
use rslock::{LockGuard, LockManager};

use crate::arm::{Arm, LEASE_MS, Lock};

pub(crate) struct Rslock(LockManager);

pub(crate) struct RslockLock {
    manager: LockManager,
    key: String,
}

impl Rslock {
    pub(crate) fn connect(url: &str) -> Self {
        Self(LockManager::new(vec![url]))
    }
}

impl Arm for Rslock {
    type Lock = RslockLock;

    fn lock(&self, key: &str) -> Result<RslockLock> {
        Ok(RslockLock { manager: self.0.clone(), key: key.to_owned() })
    }

    async fn close(&self) {}
}

impl Lock for RslockLock {
    type Held = LockGuard;

    async fn acquire(&mut self) -> Result<LockGuard> {
        Ok(self.manager.acquire(self.key.as_str(), Duration::from_millis(LEASE_MS)).await?)
    }

    async fn release(&mut self, held: LockGuard) -> bool {
        held.release().await;
        true
    }

    fn fence(_held: &LockGuard) -> Option<u64> {
        None
    }
}
