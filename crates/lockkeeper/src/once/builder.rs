//! Describing what is to run once: under which name, for how long it is remembered, how patient its callers are.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::idempotency::{Fingerprint, MAX_STORED_BYTES, OnCrash, Retention};
use lockkeeper_core::lock::Lease;
use lockkeeper_core::{Error, ErrorKind, Key, Keys};

use super::outcome::Begun;
use super::wait;
use crate::keeper::{Inner, Keeper};
use crate::lock::DEFAULT_MAX_HOLD;
use crate::telemetry::OnceClass;

/// How long a key is remembered after its operation has ended, unless said otherwise.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// The lease of a running attempt, unless said otherwise.
pub const DEFAULT_ONCE_LEASE: Duration = Duration::from_secs(30);
/// The most that is kept of a result, in bytes, unless said otherwise.
pub const DEFAULT_MAX_RESULT: usize = 256 * 1024;

/// A kind of operation that runs once per key. Made by [`Keeper::once`]; cheap to clone.
///
/// While a key's record lives, at most one attempt at a time has the right to run, and whoever comes after it has ended is
/// answered its result. That is not "exactly once": see the [guide](crate::guide::idempotency).
///
/// By default a key is remembered for 24 hours after the end; an attempt's lease is 30 s and renewed every 10 s by the keeper's
/// own thread, for at most an hour; an attempt whose process died is run again; and who comes while one runs is told so at once.
#[derive(Clone)]
pub struct Once {
    pub(super) inner: Arc<Inner>,
    pub(super) class: OnceClass,
    pub(super) settings: Settings,
}

/// As the caller said it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    retain: Duration,
    lease: Duration,
    max_hold: Option<Duration>,
    on_crash: OnCrash,
    wait: Duration,
    max_result: usize,
}

/// Settings that were found to be valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) retain: Retention,
    pub(super) lease: Lease,
    pub(super) max_hold: Option<Duration>,
    pub(super) on_crash: OnCrash,
    pub(super) max_result: usize,
}

impl Keeper {
    /// Operations of the kind `name` (1 to 64 of a-z, 0-9 and `_`; also its label in telemetry), each of which runs once per
    /// key. Keys of different names have nothing to do with each other.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lockkeeper::{Keeper, RunError};
    ///
    /// # async fn charge(_cents: u64) -> Result<String, std::io::Error> { Ok("receipt 7".to_owned()) }
    /// let keeper = Keeper::connect("memory://").await?; // or redis://127.0.0.1:6379
    /// let payments = keeper.once("payment")?; // make it once, and keep it
    /// for _ in 0..2 {
    ///     // The second time, the receipt is that of the first.
    ///     let receipt = payments.run("user:42:order:7", &1999, async |_attempt| charge(1999).await).await?;
    ///     assert_eq!(receipt, "receipt 7");
    /// }
    /// let other = payments.run("user:42:order:7", &5, async |_| charge(5).await).await;
    /// assert!(matches!(other, Err(RunError::DifferentRequest)));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// Where the server may evict records to make room, that is logged as a warning, once for each keeper.
    ///
    /// # Errors
    /// The name is not valid; the store is one of [your own](crate::KeeperBuilder::store) or a majority, which has locks only.
    pub fn once(&self, name: &str) -> Result<Once, Error> {
        let class = OnceClass::named(name)?;
        self.inner.backend.check_more_than_locks("once")?;
        let settings = Settings {
            retain: DEFAULT_RETENTION,
            lease: DEFAULT_ONCE_LEASE,
            max_hold: Some(DEFAULT_MAX_HOLD),
            on_crash: OnCrash::Rerun,
            wait: Duration::ZERO,
            max_result: DEFAULT_MAX_RESULT,
        };
        self.inner.onces.look_for_eviction(&self.inner.backend);
        Ok(Once { inner: self.inner.clone(), class, settings })
    }
}

impl Once {
    /// How long a key is remembered after its operation has ended: 1 s to 365 days. A request that comes later runs afresh, so
    /// it is to be longer than any client repeats a request. A replay does not lengthen it.
    #[must_use]
    pub fn retain(mut self, retention: Duration) -> Self {
        self.settings.retain = retention;
        self
    }

    /// The length of an attempt's lease: 100 ms to 365 days, in whole milliseconds. It is renewed while the attempt lives; that
    /// of a process that died blocks the key until it has ended.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// The longest total running time; `None` for no bound. Then the attempt is lost and nothing renews it.
    #[must_use]
    pub fn max_hold(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.settings.max_hold = limit.into();
        self
    }

    /// What becomes of an attempt whose process died, that was dropped without an end, or whose lease ended: the next caller
    /// [runs it again](OnCrash::Rerun), or [nobody](OnCrash::Hold) does until an operator has found out.
    #[must_use]
    pub fn on_crash(mut self, policy: OnCrash) -> Self {
        self.settings.on_crash = policy;
        self
    }

    /// How long [`begin`](Self::begin) and [`run`](Self::run) wait for the end of an attempt that runs. Zero is not at all.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Self {
        self.settings.wait = limit;
        self
    }

    /// The most that is kept of a result, in bytes: at most 16 MiB. Of a larger one is remembered that it was there; it is
    /// answered to nobody but the caller that ran it, and never run again.
    #[must_use]
    pub fn max_result(mut self, bytes: usize) -> Self {
        self.settings.max_result = bytes;
        self
    }

    /// Claims the right to run the operation of `key` for the request with this [fingerprint](crate::fingerprint), or learns why
    /// not. Waits for the end of an attempt that runs as long as [`wait`](Self::wait) says.
    ///
    /// The key is the caller's business: it names whoever sent the request too, so that nobody is answered another's result.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip. While waiting: one more at once; then one when the server tells of the end, and at the latest
    /// every second for all callers of this keeper that wait for the key.
    ///
    /// # Errors
    /// A setting out of its bounds; the key is empty or too long, or holds something else; refused; unreachable; outcome unknown
    /// (what may have been claimed is given back in the background); the answer came after the lease had ended (lost, likewise); the
    /// keeper was closed. While time is left to wait, transient errors are tried again.
    ///
    /// # Cancel safety
    /// What may have been claimed is given back in the background: the key is open.
    pub async fn begin(&self, key: impl AsRef<[u8]>, fingerprint: Fingerprint) -> Result<Begun, Error> {
        let begun = self.begin_or_fail(key.as_ref(), fingerprint).await?;
        if let Begun::Claimed(attempt) = &begun {
            attempt.started();
        }
        Ok(begun)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.class.name()
    }

    /// What becomes of an attempt that crashed, as [`on_crash`](Self::on_crash) has it.
    pub fn crash_policy(&self) -> OnCrash {
        self.settings.on_crash
    }

    /// Finds out now what the first [`begin`](Self::begin) would find out: whether the settings are valid. Asks no server.
    ///
    /// # Errors
    /// A setting out of its bounds.
    pub fn check(&self) -> Result<(), Error> {
        self.terms().map(|_| ()).map_err(|error| error.with_key(self.name()))
    }

    /// The key on the server: the prefix, the name, a colon, and what the caller says.
    pub(super) fn keys(&self, key: &[u8]) -> Result<Keys, Error> {
        if key.is_empty() {
            return Err(Error::bad_argument("once", "the key is empty").with_key(self.name()));
        }
        let name = [self.name().as_bytes(), b":", key].concat();
        Ok(Key::new(&self.inner.once_prefix, name)?.into())
    }

    pub(super) fn retention(&self) -> Result<Retention, Error> {
        Retention::new(self.settings.retain)
    }

    /// An attempt that is claimed by this has not [started](super::Attempt::started).
    pub(super) async fn begin_or_fail(&self, key: &[u8], fingerprint: Fingerprint) -> Result<Begun, Error> {
        let begun = self.try_to_begin(key, fingerprint).await;
        begun.inspect_err(|error| self.class.failed(error))
    }

    async fn try_to_begin(&self, key: &[u8], fingerprint: Fingerprint) -> Result<Begun, Error> {
        let (keys, terms) = self.checked(key)?;
        let begun = wait::begin(self, &keys, terms, fingerprint, self.settings.wait).await?;
        self.class.begun(&keys, &begun);
        // A keeper that connects with its first use did not know before.
        self.inner.onces.look_for_eviction(&self.inner.backend);
        Ok(begun)
    }

    fn checked(&self, key: &[u8]) -> Result<(Keys, Terms), Error> {
        let keys = self.keys(key)?;
        let terms = self.terms().map_err(|error| error.with_key(&keys))?;
        self.check_open(&keys)?;
        Ok((keys, terms))
    }

    fn terms(&self) -> Result<Terms, Error> {
        let Settings { lease, max_hold, on_crash, max_result, .. } = self.settings;
        if max_result > MAX_STORED_BYTES {
            let detail = format!("results of {max_result} bytes: at most {MAX_STORED_BYTES}");
            return Err(Error::bad_argument("once", detail));
        }
        let (lease, on_crash) = (Lease::renewed(lease)?, on_crash.checked()?);
        Ok(Terms { retain: self.retention()?, lease, max_hold, on_crash, max_result })
    }

    pub(super) fn check_open(&self, keys: &Keys) -> Result<(), Error> {
        if self.inner.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "begin", "").with_key(keys));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Once {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Once").field("name", &self.name()).field("settings", &self.settings).finish()
    }
}
