//! Degraded mode, by explicit choice: when the store is away, the lock is taken inside this process only.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_core::lock::Fence;
use lockkeeper_core::{Error, ErrorKind, Keys};

use super::builder::Lock;
use super::guard::LockGuard;
use super::local::{self, LocalHold};
use super::outcome::{Acquired, Busy, Extended, LossReason, Released};
use crate::keeper::Inner;
use crate::telemetry::{Reason, events};

/// A lock for work that is not critical: while the store is away, it is taken inside this process only. See
/// [`Lock::or_process_local`].
#[derive(Clone, Debug)]
pub struct DegradableLock {
    lock: Lock,
}

/// The answer of a lock that may be degraded.
#[derive(Debug)]
#[must_use = "a lock that is not looked at is released at once"]
pub enum Degradable {
    /// It is yours until the lease ends, as any lock.
    Held(DegradableGuard),
    /// The store is away. Only this process is excluded; **other processes may do the same work at this moment**.
    Local(LocalGuard),
    /// Somebody else has it, here or elsewhere.
    Busy(Busy),
}

/// A held lock that also excludes those of this process that are degraded meanwhile. Dropping it releases in the
/// background.
///
/// Not to be cloned, because both ends are released together; share it in an `Arc`.
#[must_use = "dropping the guard releases the lock"]
pub struct DegradableGuard {
    // In this order: the store's first, so that who follows here finds it free.
    guard: LockGuard,
    _hold: LocalHold,
}

/// A lock inside this process only, taken because the store was away. It has **no fence** and no lease: it is held
/// until it is dropped. That the store comes back changes nothing for it; the next acquisition is a real one.
#[must_use = "dropping the guard releases the lock"]
pub struct LocalGuard {
    inner: Arc<Inner>,
    keys: Keys,
    cause: Error,
    _hold: LocalHold,
}

impl Lock {
    /// Degrades to a lock inside this process while the store is away. For work that is **not critical**: work that
    /// wastes something, and breaks nothing, when two processes do it at once. The default is to refuse.
    ///
    /// ```
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::connect("memory://").await?;
    /// use lockkeeper::Degradable;
    ///
    /// match keeper.lock("warm-cache")?.or_process_local().acquire().await? {
    ///     Degradable::Held(guard) => drop(guard.release().await?),
    ///     Degradable::Local(guard) => eprintln!("alone in this process only: {}", guard.cause()),
    ///     Degradable::Busy(busy) => eprintln!("{busy}"),
    /// }
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// *Away* is whatever [`Error::is_transient`] says: unreachable, too late, outcome unknown, or a refusal that
    /// passes by itself (`LOADING`, `READONLY`, `MASTERDOWN`, `CLUSTERDOWN`, `NOREPLICAS`, `MISCONF`, `OOM`, `BUSY`). Missing
    /// permissions, a wrong type, or a cluster behind a URL of one server are mistakes that degrading would hide; they
    /// stay errors.
    ///
    /// Degradable locks of one keeper exclude each other by key, fairly, degraded or not. A plain [`Lock`] takes no part
    /// in that: use the same kind for the same work.
    pub fn or_process_local(mut self) -> DegradableLock {
        self.stops_when_away = true;
        DegradableLock { lock: self }
    }
}

/// The store cannot take locks for now, and may again without anybody changing a configuration.
pub(super) fn is_away(error: &Error) -> bool {
    // Too few that have it, or too many who wait for them, are no reason to do with less.
    let is_there = error.is_busy() || error.is_not_durable() || error.kind() == ErrorKind::Crowded;
    error.is_transient() && !is_there
}

impl DegradableLock {
    /// Takes it inside this process, then on the store; the lock's wait limit holds for both together. Where the store
    /// is away, the first step alone counts: at once, without waiting on, and logged as a warning, counted
    /// (`redis_lock_degraded_total`) and seen in [`Health::degraded`](crate::Health::degraded).
    ///
    /// # Redis
    /// As [`Lock::acquire`].
    ///
    /// # Errors
    /// As [`Lock::acquire`], except for those that mean *away*; more than 100,000 keys inside this process.
    ///
    /// # Cancel safety
    /// What may have been taken is given back: here at once, on the store in the background.
    pub async fn acquire(&self) -> Result<Degradable, Error> {
        let clock = &*self.lock.inner.clock;
        let started = clock.uptime();
        let ends = self.lock.wait.map(|limit| started.after(limit));
        let hold = match local::take(&self.lock, ends).await? {
            Ok(hold) => hold,
            Err(busy) => {
                let waited = clock.uptime().since(started);
                self.lock.class.refused(Reason::Busy, waited);
                events::acquire_refused(&self.lock.keys, None, &busy, waited);
                return Ok(Degradable::Busy(busy));
            }
        };
        let mut lock = self.lock.clone();
        lock.wait = ends.map(|ends| ends.since(clock.uptime()));
        match lock.acquire().await {
            Ok(Acquired::Held(guard)) => Ok(Degradable::Held(DegradableGuard::new(guard, hold))),
            Ok(Acquired::Busy(busy)) => Ok(Degradable::Busy(busy)),
            Err(error) if is_away(&error) => Ok(Degradable::Local(LocalGuard::new(&lock, error, hold))),
            Err(error) => Err(error),
        }
    }

    /// The keys, as displayed.
    pub fn key(&self) -> String {
        self.lock.key()
    }
}

impl DegradableGuard {
    fn new(guard: LockGuard, hold: LocalHold) -> Self {
        hold.show(&guard.token().holder());
        Self { guard, _hold: hold }
    }

    /// As [`LockGuard::fence`].
    ///
    /// # Errors
    /// As there.
    pub fn fence(&self) -> Result<Fence, Error> {
        self.guard.fence()
    }

    /// As [`LockGuard::is_valid`].
    pub fn is_valid(&self) -> bool {
        self.guard.is_valid()
    }

    /// As [`LockGuard::remaining`].
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// As [`LockGuard::lost`].
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn lost(&self) -> LossReason {
        self.guard.lost().await
    }

    /// As [`LockGuard::loss`].
    pub fn loss(&self) -> Option<LossReason> {
        self.guard.loss()
    }

    /// As [`LockGuard::extend`].
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn extend(&self, length: Duration) -> Result<Extended, Error> {
        self.guard.extend(length).await
    }

    /// As [`LockGuard::release`]; then lets go inside this process.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// It is released in the background, and here at once.
    pub async fn release(self) -> Result<Released, Error> {
        self.guard.release().await
    }
}

impl LocalGuard {
    fn new(lock: &Lock, cause: Error, hold: LocalHold) -> Self {
        lock.class.degraded();
        events::degraded(&lock.keys, &cause);
        lock.inner.locals.degraded.fetch_add(1, Ordering::Relaxed);
        Self { inner: lock.inner.clone(), keys: lock.keys.clone(), cause, _hold: hold }
    }

    /// Why it is degraded: the store's last error.
    pub fn cause(&self) -> &Error {
        &self.cause
    }

    /// The keys, as displayed.
    pub fn key(&self) -> String {
        self.keys.to_string()
    }
}

impl Drop for LocalGuard {
    fn drop(&mut self) {
        self.inner.locals.degraded.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for DegradableGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DegradableGuard").field(&self.guard).finish()
    }
}

impl fmt::Debug for LocalGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalGuard")
            .field("key", &self.key())
            .field("cause", &self.cause)
            .finish_non_exhaustive()
    }
}
