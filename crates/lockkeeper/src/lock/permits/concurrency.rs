//! Describing a concurrency limit: which name, how many, how long, how patient.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::permit::{InspectPermits, PermitHolder, PermitLimit};
use lockkeeper_core::lock::{Durability, Lease};
use lockkeeper_core::{Error, ErrorKind, Key, Keys, Uptime};
use lockkeeper_redis::Lane;

use super::outcome::AcquiredPermit;
use super::permit::Permit;
use super::{attempt, wait};
use crate::keeper::{Inner, Keeper};
use crate::lock::builder::{DEFAULT_LEASE, DEFAULT_MAX_HOLD, DEFAULT_WAIT};
use crate::lock::outcome::LossReason;
use crate::telemetry::{Class, Reason};

/// So many at once, described but not taken. Cheap to clone; take permits of it as often as you like.
///
/// By default the lease is 30 s and renewed every 10 s by the keeper's own thread, for at most an hour; waiting ends
/// after 30 s. See the [guide](crate::guide::concurrency).
#[derive(Clone)]
pub struct Concurrency {
    pub(super) inner: Arc<Inner>,
    pub(super) keys: Keys,
    pub(super) limit: PermitLimit,
    pub(super) lease: Duration,
    pub(super) wait: Option<Duration>,
    pub(super) max_hold: Option<Duration>,
    pub(super) durability: Durability,
    pub(super) class: Class,
}

impl Keeper {
    /// A limit on how many hold a permit of `name` at once, over all processes: 1 to 10,000. It has nothing to do with a
    /// lock of the same name.
    ///
    /// The limit is part of each request, not of what is stored: it may be another one tomorrow. Where more are held than
    /// a lowered limit allows, nobody is evicted, and nobody is let in until fewer are held.
    ///
    /// # Errors
    /// Limit zero or above [`MAX_PERMITS`](crate::MAX_PERMITS); the name is empty, too long, or begins with `~`.
    pub fn concurrency(&self, name: impl AsRef<[u8]>, limit: u32) -> Result<Concurrency, Error> {
        self.inner.backend.check_permits()?;
        let key = Key::new(&self.inner.prefix, name)?;
        let limit = PermitLimit::new(limit).map_err(|error| error.with_key(&key))?;
        Ok(Concurrency {
            inner: self.inner.clone(),
            keys: key.into(),
            limit,
            lease: DEFAULT_LEASE,
            wait: Some(DEFAULT_WAIT),
            max_hold: Some(DEFAULT_MAX_HOLD),
            durability: self.inner.durability,
            class: Class::of_permits(),
        })
    }
}

impl Concurrency {
    /// The length of the lease: 100 ms to 365 days, in whole milliseconds. A permit of a process that died is back
    /// when its lease has ended.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long [`acquire`](Self::acquire) waits. Zero is exactly one try.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// Waits without a limit.
    #[must_use]
    pub fn wait_forever(mut self) -> Self {
        self.wait = None;
        self
    }

    /// The longest total holding time; `None` for no bound. Then the permit is lost and nothing renews it.
    #[must_use]
    pub fn max_hold(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.max_hold = limit.into();
        self
    }

    /// How durable the acquisition and each renewal have to be, instead of the keeper's level; as
    /// [`Lock::durability`](crate::Lock::durability).
    #[must_use]
    pub fn durability(mut self, level: Durability) -> Self {
        self.durability = level;
        self
    }

    /// One try.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip. Inside: `TIME`, two `ZREMRANGEBYSCORE`, `ZCARD`, `ZSCORE`, then `ZADD`,
    /// `ZREVRANGE` and `PEXPIREAT`; when full, `PTTL` and `ZRANGE`.
    ///
    /// # Errors
    /// Bad lease; wrong type under the key; the server refused; unreachable; outcome unknown (given back in the
    /// background); a store of your own, which keeps locks only. Answers or fails within the keeper's response time-out.
    ///
    /// # Cancel safety
    /// What may have been taken is given back in the background.
    pub async fn try_acquire(&self) -> Result<AcquiredPermit, Error> {
        let since = self.inner.clock.uptime();
        let result = self.try_once().await;
        self.counted(since, result)
    }

    async fn try_once(&self) -> Result<AcquiredPermit, Error> {
        let lease = self.checked_lease()?;
        let line = self.inner.permits.of(&self.keys);
        self.check_open()?;
        attempt::once(self, lease, &line).await
    }

    /// Tries until a permit is held or the wait limit has passed; then the answer is full, or the last error.
    ///
    /// Who has to wait stands in line behind those of this keeper who wait for the same name: first come, first served.
    /// Only the first one asks the server: at once when this keeper gives one back, 1 to 5 ms after the first lease
    /// has ended, and every 50 to 100 ms. It asks from the task that waits; where that task is not polled for a second,
    /// somebody behind it asks. There is no order among keepers.
    ///
    /// # Redis
    /// As [`try_acquire`](Self::try_acquire), once per question.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire); the keeper was closed. While time is left, transient errors are tried again.
    ///
    /// # Cancel safety
    /// The place in the line is left, and what may have been taken is given back in the background.
    pub async fn acquire(&self) -> Result<AcquiredPermit, Error> {
        let since = self.inner.clock.uptime();
        let result = match self.checked_lease() {
            Ok(lease) => wait::acquire(self, lease).await,
            Err(error) => Err(error),
        };
        self.counted(since, result)
    }

    /// What is counted as a lock's acquisition is.
    fn counted(&self, since: Uptime, result: Result<AcquiredPermit, Error>) -> Result<AcquiredPermit, Error> {
        let took = self.inner.clock.uptime().since(since);
        match &result {
            Ok(AcquiredPermit::Held(_)) => self.class.acquired(took),
            Ok(AcquiredPermit::Full(_)) => self.class.refused(Reason::Busy, took),
            Err(error) => self.class.refused(error.into(), took),
        }
        result
    }

    pub(in crate::lock) fn in_class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Acquires, runs `work`, and releases. `work` is dropped (cancelled) as soon as the permit is lost.
    ///
    /// What `work` returns is handed through: where that is a `Result`, you get a `Result` in a `Result`.
    ///
    /// # Redis
    /// As [`acquire`](Self::acquire), and a [`release`](Permit::release).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); full (of kind `Busy`); lost. When the release after finished work gets no answer,
    /// the work's value is returned all the same: the release goes on in the background.
    ///
    /// # Cancel safety
    /// `work` is dropped and the permit released in the background.
    pub async fn run<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: AsyncFnOnce(Permit) -> T,
    {
        let permit = self.acquire().await?.or_full()?;
        let value = tokio::select! {
            biased;
            reason = not_released(&permit) => return Err(self.lost(&reason)),
            value = work(permit.clone()) => value,
        };
        match permit.loss() {
            // The work gave it back by itself.
            Some(reason) if reason.is_wanted() => return Ok(value),
            None if permit.is_valid() => {}
            reason => return Err(self.lost(&reason.unwrap_or(LossReason::Expired))),
        }
        if let Err(error) = permit.release().await {
            tracing::warn!(key = %self.keys, %error, "the work was done, its permit could not be released at once");
        }
        Ok(value)
    }

    /// Who holds a permit now, by the end of their leases.
    ///
    /// # Redis
    /// One read-only script, one round trip.
    ///
    /// # Errors
    /// Wrong type under the key; refused; unreachable; a store of your own.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn holders(&self) -> Result<Vec<PermitHolder>, Error> {
        let (backend, within) = (&self.inner.backend, self.inner.response_timeout);
        Ok(backend.apply(Lane::Command, &self.keys, InspectPermits, within).await?.reply)
    }

    /// How many may hold at once.
    pub fn limit(&self) -> u32 {
        self.limit.get()
    }

    /// The key, as displayed.
    pub fn key(&self) -> String {
        self.keys.to_string()
    }

    fn lost(&self, reason: &LossReason) -> Error {
        Error::new(ErrorKind::Lost, "run", reason.to_string()).with_key(&self.keys)
    }

    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.inner.is_closed() { Err(self.closed()) } else { Ok(()) }
    }

    pub(super) fn closed(&self) -> Error {
        Error::new(ErrorKind::Closed, "acquire_permit", "").with_key(&self.keys)
    }

    fn checked_lease(&self) -> Result<Lease, Error> {
        Lease::renewed(self.lease).map_err(|error| error.with_key(&self.keys))
    }
}

/// Waits for a loss; a wanted release is none.
async fn not_released(permit: &Permit) -> LossReason {
    match permit.lost().await {
        reason if reason.is_wanted() => std::future::pending().await,
        reason => reason,
    }
}

impl std::fmt::Debug for Concurrency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Concurrency")
            .field("keys", &self.keys)
            .field("limit", &self.limit.get())
            .field("lease", &self.lease)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
