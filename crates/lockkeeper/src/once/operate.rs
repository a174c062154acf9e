//! What operators do: look at a key, and say what became of an attempt that went away.

use lockkeeper_core::idempotency::{InspectOnce, OnceInspection, Resolution, Resolve, ResolveReply};
use lockkeeper_core::lock::Fence;
use lockkeeper_core::{Error, Timestamp};
use lockkeeper_redis::Lane;

use super::builder::Once;
use crate::lock::fresh_token;
use crate::telemetry::events;

impl Once {
    /// What is kept of `key`; `None` where it is not remembered.
    ///
    /// # Redis
    /// One read-only script, one round trip.
    ///
    /// # Errors
    /// The key is empty or too long, or holds something else; refused; unreachable.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn inspect(&self, key: impl AsRef<[u8]>) -> Result<Option<OnceInspection>, Error> {
        let keys = self.keys(key.as_ref())?;
        let (backend, within) = (&self.inner.backend, self.inner.response_timeout);
        Ok(backend.apply(Lane::Command, &keys, InspectOnce, within).await?.reply)
    }

    /// Says what became of exactly the attempt with this fence, as [`inspect`](Self::inspect) or
    /// [`Begun::Unknown`](crate::Begun::Unknown) showed it: it had no effect (the key is open), or it had this result (later callers
    /// are answered it). Only where its lease has ended, and nothing has begun since. Logged as a warning.
    ///
    /// The key is then remembered for [`retain`](Self::retain), or as long as it would have been, whichever is longer.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect); retention out of its bounds; outcome unknown: [`inspect`](Self::inspect) tells.
    ///
    /// # Cancel safety
    /// It may have been resolved.
    pub async fn resolve(
        &self,
        key: impl AsRef<[u8]>,
        fence: Fence,
        resolution: Resolution,
    ) -> Result<ResolveReply, Error> {
        let keys = self.keys(key.as_ref())?;
        let (token, retain) = (fresh_token(&self.inner, None)?, self.retention()?);
        let operator = token.holder();
        let decision =
            Resolve { fence, token, resolution: resolution.clone(), retain, not_after: Timestamp::MAX };
        let (backend, within) = (&self.inner.backend, self.inner.response_timeout);
        let reply = backend.apply(Lane::Command, &keys, decision, within).await?.reply;
        events::once_resolved(self.name(), &keys, &operator, fence, &resolution, &reply);
        if reply == ResolveReply::Resolved {
            self.inner.onces.of(&keys).ended();
        }
        Ok(reply)
    }
}
