//! What operators do: look at a key, and say what became of an attempt that went away.

use lockkeeper_core::idempotency::{
    InspectOnce, OnceInspection, Phase, RecordState, Resolution, Resolve, ResolveReply, Stored,
};
use lockkeeper_core::lock::Fence;
use lockkeeper_core::{Error, ErrorKind, Timestamp};
use lockkeeper_redis::Lane;

use super::builder::Once;
use crate::backend::Backend;
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

    /// What is kept of the result of `key`, for operators: a program asks with [`begin`](Self::begin), which compares requests.
    /// `None` where it is not remembered, or has not completed.
    ///
    /// # Redis
    /// One `GET`, one round trip.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect), but that a text which is no record counts as none.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn stored(&self, key: impl AsRef<[u8]>) -> Result<Option<Stored>, Error> {
        let keys = self.keys(key.as_ref())?;
        let (record, now) = match &self.inner.backend {
            Backend::Memory(store) => (store.once_record(keys.at(0)), store.now()),
            Backend::Redis(lanes) => {
                let store = lanes.on(Lane::Command);
                let record = store.once_record(keys.at(0), self.inner.response_timeout).await?;
                (record, store.server_now_at(&keys))
            }
            Backend::Quorum(_) | Backend::Other(_) => {
                return Err(Error::new(ErrorKind::Unsupported, "once", "this store has locks only"));
            }
        };
        Ok(record.filter(|record| record.phase(now) == Phase::Completed).and_then(|record| {
            match record.state {
                RecordState::Completed(stored) => Some(stored),
                _ => None,
            }
        }))
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
