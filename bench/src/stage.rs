//! What a row on Redis stands on: a server, a runtime, and both arms connected from inside that runtime.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use lockkeeper::{Acquired, Keeper, Lock, LockGuard, Released};
use lockkeeper_faults::RedisServer;
use tokio::runtime::Runtime;

use crate::bare::{Bare, LEASE_MS, Socket};
use crate::runtime::{Flavour, on};
use crate::server;

pub(crate) struct Stage {
    pub(crate) keeper: Keeper,
    pub(crate) bare: Bare,
    // Dropped after those that use it, and before the server that its connections lead to.
    pub(crate) runtime: Runtime,
    pub(crate) server: RedisServer,
}

impl Stage {
    pub(crate) fn set(flavour: Flavour) -> Result<Self> {
        Self::set_with(flavour, Socket::Default)
    }

    pub(crate) fn set_with(flavour: Flavour, socket: Socket) -> Result<Self> {
        let server = server::start()?;
        let runtime = flavour.start()?;
        let url = server.url();
        let connecting =
            async move { Ok((Keeper::connect(&url).await?, Bare::connect(&url, socket).await?)) };
        let (keeper, bare) = on(&runtime, connecting)?;
        Ok(Self { keeper, bare, runtime, server })
    }

    /// Releases what is left and ends the keeper's thread.
    pub(crate) fn strike(self) -> Result<()> {
        let closed = self.runtime.block_on(self.keeper.close(Duration::from_secs(5)));
        ensure!(closed.still_held == 0 && closed.undone == 0, "something was left behind: {closed:?}");
        Ok(())
    }
}

/// Lockkeeper's arm: acquires and releases.
pub(crate) async fn cycle(lock: &Lock) -> Result<()> {
    release(acquire(lock).await?).await
}

/// A lock with the lease of all arms.
pub(crate) fn lock(keeper: &Keeper, name: &str) -> Result<Lock> {
    Ok(keeper.lock(name)?.lease(Duration::from_millis(LEASE_MS)))
}

pub(crate) async fn acquire(lock: &Lock) -> Result<LockGuard> {
    match lock.try_acquire().await? {
        Acquired::Held(guard) => Ok(guard),
        Acquired::Busy(busy) => bail!("Lockkeeper's arm: {} is {busy}", lock.key()),
    }
}

pub(crate) async fn release(guard: LockGuard) -> Result<()> {
    match guard.release().await? {
        Released::Released => Ok(()),
        other => bail!("Lockkeeper's arm: the release answered {other:?}"),
    }
}
