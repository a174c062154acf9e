//! Describing a lock: which keys, how long, how patient.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::{Durability, Lease, OwnerToken};
use lockkeeper_core::{Error, ErrorKind, Keys};

use super::asked::Asked;
use super::guard::LockGuard;
use super::outcome::{Acquired, LossReason, TakenOver};
use super::{swap, wait};
use crate::keeper::Inner;
use crate::telemetry::Class;

/// The lease unless [`Lock::lease`] says otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// How long [`Lock::acquire`] waits unless [`Lock::wait`] says otherwise.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// How long a renewed lock is held at most unless [`Lock::max_hold`] says otherwise: a stuck task must not hold a
/// lock for ever.
pub const DEFAULT_MAX_HOLD: Duration = Duration::from_secs(3600);

/// A lock, described but not taken. Cheap to clone; take it as often as you like.
///
/// By default the lease is 30 s and renewed every 10 s by the keeper's own thread, for at most an hour; waiting ends
/// after 30 s. A lease that is not renewed should be three to ten times the expected work.
#[derive(Clone)]
pub struct Lock {
    pub(super) inner: Arc<Inner>,
    pub(super) keys: Keys,
    pub(super) lease: Duration,
    pub(super) wait: Option<Duration>,
    pub(super) terms: Terms,
    pub(super) label: Option<Arc<str>>,
    pub(super) token: Option<OwnerToken>,
    pub(super) durability: Durability,
    pub(super) class: Class,
    /// Waiting ends with the first error that means that the store is away.
    pub(super) stops_when_away: bool,
}

/// How a held lock is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) max_renewals: Option<u32>,
}

impl Lock {
    pub(crate) fn new(inner: Arc<Inner>, keys: Keys) -> Self {
        let terms = Terms { renew: true, max_hold: Some(DEFAULT_MAX_HOLD), max_renewals: None };
        let durability = inner.durability;
        Self {
            inner,
            keys,
            lease: DEFAULT_LEASE,
            wait: Some(DEFAULT_WAIT),
            terms,
            label: None,
            token: None,
            durability,
            class: Class::default(),
            stops_when_away: false,
        }
    }

    /// The length of the lease: 10 ms (100 ms where it is renewed) to 365 days, in whole milliseconds.
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

    /// Does not renew the lease: it ends when its length has passed, unless it is extended by hand.
    #[must_use]
    pub fn no_renewal(mut self) -> Self {
        self.terms.renew = false;
        self
    }

    /// The longest total holding time of a renewed lock; `None` for no bound. Then the guard is lost and nothing
    /// renews it.
    #[must_use]
    pub fn max_hold(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.terms.max_hold = limit.into();
        self
    }

    /// How durable each step that starts or lengthens the lease has to be, instead of the keeper's level: the acquisition,
    /// each renewal, an extension, a swap. The guard's deadline moves only once the level is met; see the
    /// [guide](crate::guide::durability).
    ///
    /// An acquisition that is not met in time is given back, and fails with an error of kind
    /// [`NotDurable`](lockkeeper_core::ErrorKind::NotDurable) ("1 of 2 replicas acknowledged it in time"), which also ends
    /// waiting. A renewal that is not met is tried again while the lease runs.
    ///
    /// # Redis
    /// The script (`EVAL`) and `WAIT` or `WAITAOF` behind it in one round trip, on a connection of a small pool; for all replicas
    /// a second one. Who had to wait in line: one more, for a renewal. A release waits for nobody.
    #[must_use]
    pub fn durability(mut self, level: Durability) -> Self {
        self.durability = level;
        self
    }

    /// The greatest number of renewals. Then the guard is lost at the end of its lease.
    #[must_use]
    pub fn max_renewals(mut self, limit: u32) -> Self {
        self.terms.max_renewals = Some(limit);
        self
    }

    /// A label that people see beside host and process, instead of the keeper's. At most 64 of `A-Z a-z 0-9 . _ -`;
    /// other characters become `_`.
    #[must_use]
    pub fn owner(mut self, label: &str) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Takes the lock with a token of your own, to release it elsewhere. It serves **one acquisition**: while that is
    /// held, asking again with its token answers the same acquisition; once it was released, lost, dropped, or an
    /// acquire with it failed, it may be given back in the background at any time, so take another. Waiting ends
    /// with the first outcome that is unknown.
    #[must_use]
    pub fn token(mut self, token: OwnerToken) -> Self {
        self.token = Some(token);
        self
    }

    pub(super) fn without_token(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// One try.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip. Inside: `TIME`, and two `GET` and two `SET` per key; when busy, a `GET` per key and one `PTTL`.
    ///
    /// # Errors
    /// Bad lease; wrong type under a key; the server refused; unreachable; not as durable as was asked for, or outcome
    /// unknown (given back in the background). Answers or fails within the keeper's response time-out.
    ///
    /// # Cancel safety
    /// What may have been taken is given back in the background.
    pub async fn try_acquire(&self) -> Result<Acquired, Error> {
        self.check_open()?;
        let lease = self.checked_lease()?;
        let asked = Asked::new(self);
        asked.answer(wait::try_once(self, lease).await)
    }

    /// Tries until it is held or the wait limit has passed; then the answer is busy, or the last error.
    ///
    /// Who has to wait stands in line behind those of this keeper who wait for the same keys: first come, first
    /// served. The line tries when the server tells of a change (a release, a forced release), 1 to 5 ms after the end
    /// of the holder's lease, and at the latest after a second; where the server may not be asked to tell, with
    /// growing, jittered pauses of 5 ms to 1 s. A holder of this keeper passes the lock on to the front of the line
    /// inside the process. While other keepers wait too, turns end after 5 ms; there is no order among keepers.
    ///
    /// # Redis
    /// One try as [`try_acquire`](Self::try_acquire), unless others of this keeper wait already; then, for the whole
    /// line, one `EVALSHA` (`watch`) per try on the waiting connection, at most ten at once and one per 2 ms because
    /// of notices. Passed on inside the process: no round trip; by a swap where lease, label, token or renewal differ
    /// or the reserved fences are used up: one `EVALSHA`.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire). While time is left, transient errors are tried again.
    ///
    /// # Cancel safety
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn acquire(&self) -> Result<Acquired, Error> {
        self.check_open()?;
        let lease = self.checked_lease()?;
        let asked = Asked::new(self);
        let since = asked.since();
        asked.answer(wait::acquire(self, lease, since).await)
    }

    /// Takes over a lock that another process [handed over](LockGuard::hand_over): without letting go of it, `token` is
    /// replaced by a fresh one, the lease restarted at this lock's, and the fence raised. The lock must have the same
    /// names.
    ///
    /// # Redis
    /// One `EVALSHA` (`swap`), one round trip.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire). Where the outcome is unknown, both tokens are given back.
    ///
    /// # Cancel safety
    /// Both tokens are given back in the background.
    pub async fn take_over(&self, token: &OwnerToken) -> Result<TakenOver, Error> {
        self.check_open()?;
        let lease = self.checked_lease()?;
        swap::take_over(self, lease, token).await
    }

    /// Acquires, runs `work`, and releases. `work` is dropped (cancelled) as soon as the lease is lost.
    ///
    /// ```
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::connect("memory://").await?;
    /// let sum = keeper.lock("job")?.run(async |held| held.fence().map(|fence| fence.get() % 2 + 40)).await??;
    /// assert!(sum >= 40);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// What `work` returns is handed through: where that is a `Result`, you get a `Result` in a `Result`.
    ///
    /// # Redis
    /// As [`acquire`](Self::acquire), and a [`release`](LockGuard::release).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); busy; lost. When the release after finished work gets no answer, the work's
    /// value is returned all the same: the release goes on in the background.
    ///
    /// # Cancel safety
    /// `work` is dropped and the lock released in the background.
    pub async fn run<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: AsyncFnOnce(LockGuard) -> T,
    {
        let guard = self.acquire().await?.or_busy()?;
        let value = tokio::select! {
            biased;
            reason = not_released(&guard) => return Err(self.lost(&reason)),
            value = work(guard.clone()) => value,
        };
        match guard.loss() {
            // The work gave it back by itself.
            Some(reason) if reason.is_wanted() => return Ok(value),
            None if guard.is_valid() => {}
            reason => return Err(self.lost(&reason.unwrap_or(LossReason::Expired))),
        }
        if let Err(error) = guard.release().await {
            tracing::warn!(key = %self.keys, %error, "the work was done, its lock could not be released at once");
        }
        Ok(value)
    }

    /// The keys, as displayed.
    pub fn key(&self) -> String {
        self.keys.to_string()
    }

    fn lost(&self, reason: &LossReason) -> Error {
        Error::new(ErrorKind::Lost, "run", reason.to_string()).with_key(&self.keys)
    }

    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.inner.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "acquire", "").with_key(&self.keys));
        }
        Ok(())
    }

    fn checked_lease(&self) -> Result<Lease, Error> {
        let lease = if self.terms.renew { Lease::renewed(self.lease) } else { Lease::new(self.lease) };
        lease.map_err(|error| error.with_key(&self.keys))
    }
}

/// Waits for a loss; a wanted release is none.
async fn not_released(guard: &LockGuard) -> LossReason {
    match guard.lost().await {
        reason if reason.is_wanted() => std::future::pending().await,
        reason => reason,
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock")
            .field("keys", &self.keys)
            .field("lease", &self.lease)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
