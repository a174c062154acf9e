//! Lockkeeper, with its defaults: one keeper per process, leases renewed.

use std::time::Duration;

use anyhow::Result;
use lockkeeper::{Fence, Keeper, LockGuard, Released};

use crate::arm::{Arm, LEASE_MS, Lock};

/// Longer than anything measured here.
const WAIT: Duration = Duration::from_secs(60);
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

pub(crate) struct Lockkeeper(Keeper);

impl Lockkeeper {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(Keeper::connect(url).await?))
    }
}

impl Arm for Lockkeeper {
    type Lock = lockkeeper::Lock;

    fn lock(&self, key: &str) -> Result<lockkeeper::Lock> {
        Ok(self.0.lock_exact(key)?.lease(Duration::from_millis(LEASE_MS)).wait(WAIT))
    }

    async fn close(&self) {
        let closed = self.0.close(CLOSE_WITHIN).await;
        if closed.undone > 0 {
            eprintln!("something was left behind: {closed:?}");
        }
    }
}

impl Lock for lockkeeper::Lock {
    type Held = LockGuard;

    async fn acquire(&mut self) -> Result<LockGuard> {
        Ok(lockkeeper::Lock::acquire(self).await?.or_busy()?)
    }

    async fn release(&mut self, held: LockGuard) -> bool {
        match held.release().await {
            Ok(Released::Released) => true,
            other => {
                eprintln!("a release answered {other:?}");
                false
            }
        }
    }

    fn fence(held: &LockGuard) -> Option<u64> {
        held.fence().ok().map(Fence::get)
    }
}
