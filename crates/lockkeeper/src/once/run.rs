//! Work that runs once.

use lockkeeper_core::idempotency::Stored;
use lockkeeper_core::{Error, ErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::attempt::Attempt;
use super::builder::Once;
use super::outcome::{Begun, Replay, RunError};
use crate::fingerprint;
use crate::lock::LossReason;

impl Once {
    /// Runs `work` once per `key`, and answers its value to whoever comes with the same `request` while the key is remembered.
    ///
    /// * `Ok` is stored, as JSON, before the claim ends, whatever becomes of this future meanwhile.
    /// * `Err` says that there was *no effect*: nothing is stored, the key is open, and the next caller runs it. To have a failure
    ///   answered to later callers too, make it a value: `async |_| Ok::<_, Infallible>(charge().await)` stores the whole `Result`.
    /// * Work that panics or is dropped may have had its effect: its attempt counts as crashed, see [`on_crash`](Self::on_crash).
    ///   Work that was never polled had none.
    /// * Work whose claim is lost is dropped.
    ///
    /// `work` may end its attempt by itself; then what it returns is handed through. Requests are compared by the
    /// [fingerprint](crate::fingerprint::of_value) of their JSON.
    ///
    /// # Redis
    /// As [`begin`](Self::begin), and a [`complete`](Attempt::complete) or [`abandon`](Attempt::abandon).
    ///
    /// # Errors
    /// See [`RunError`].
    ///
    /// # Cancel safety
    /// `work` is dropped, and its attempt counts as crashed. Once it has returned, its value is stored in the background.
    pub async fn run<T, E, R, F>(
        &self,
        key: impl AsRef<[u8]>,
        request: &R,
        work: F,
    ) -> Result<T, RunError<T, E>>
    where
        R: Serialize + ?Sized,
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(Attempt) -> Result<T, E>,
    {
        let fingerprint = fingerprint::of_value(request).map_err(RunError::Store)?;
        match self.begin_or_fail(key.as_ref(), fingerprint).await.map_err(RunError::Store)? {
            Begun::Claimed(attempt) => run(attempt, work).await,
            Begun::Completed(replay) => read(&replay),
            Begun::Running { holder, attempt, retry_after } => {
                Err(RunError::Running { holder, attempt, retry_after })
            }
            Begun::DifferentRequest => Err(RunError::DifferentRequest),
            Begun::Unknown { holder, fence, remaining } => {
                Err(RunError::Unknown { holder, fence, remaining })
            }
        }
    }
}

pub(super) async fn run<T: Serialize, E>(
    attempt: Attempt,
    work: impl AsyncFnOnce(Attempt) -> Result<T, E>,
) -> Result<T, RunError<T, E>> {
    let mut has_begun = false;
    let working = async {
        has_begun = true;
        attempt.started();
        work(attempt.clone()).await
    };
    let result = tokio::select! {
        biased;
        reason = lost(&attempt) => Err(reason),
        result = working => Ok(result),
    };
    let result = match result {
        Ok(result) => result,
        Err(reason) => {
            let error = Error::new(ErrorKind::Lost, "run", reason.to_string()).with_key(attempt.key());
            if !has_begun {
                abandon(attempt).await;
            }
            return Err(RunError::Lost(error));
        }
    };
    if attempt.is_settled() {
        return result.map_err(RunError::Work);
    }
    match result {
        Ok(value) => {
            let stored = written(&attempt, &value);
            match attempt.complete(stored).await {
                Ok(_) => Ok(value),
                Err(error) => Err(RunError::Unrecorded { value, error }),
            }
        }
        Err(failure) => {
            abandon(attempt).await;
            Err(RunError::Work(failure))
        }
    }
}

async fn abandon(attempt: Attempt) {
    if let Err(error) = attempt.abandon().await {
        tracing::debug!(%error, "work without an effect could not be abandoned at once");
    }
}

/// Waits for a loss; a wanted end is none.
async fn lost(attempt: &Attempt) -> LossReason {
    match attempt.lost().await {
        reason if reason.is_wanted() => std::future::pending().await,
        reason => reason,
    }
}

/// What cannot be kept of it is not kept: it has run all the same.
fn written<T: Serialize>(attempt: &Attempt, value: &T) -> Stored {
    let written = serde_json::to_vec(value).map_err(|error| error.to_string());
    let kept = written.and_then(|bytes| Stored::whole(bytes).map_err(|error| error.to_string()));
    kept.unwrap_or_else(|why| {
        warn_not_kept(&attempt.key(), &why);
        Stored::nothing()
    })
}

pub(super) fn warn_not_kept(key: &dyn std::fmt::Display, why: &str) {
    tracing::warn!(%key, why, "a result is not kept: later callers learn only that it was there");
}

fn read<T: DeserializeOwned, E>(replay: &Replay) -> Result<T, RunError<T, E>> {
    if !replay.stored.is_whole() {
        return Err(RunError::NotKept);
    }
    serde_json::from_slice(replay.stored.bytes()).map_err(RunError::Result)
}
