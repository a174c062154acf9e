//! What operators do: look at a lock, remove a holder, release with a token.

use lockkeeper_core::lock::{
    ForceRelease, ForceReleaseReply, Holder, Inspect, Inspection, OwnerToken, Release,
};
use lockkeeper_core::{Error, ErrorKind, Key, Keys, Timestamp};
use lockkeeper_redis::Lane;

use crate::keeper::Keeper;
use crate::lock::{ForceReleased, Released};

impl Keeper {
    /// Who holds `name`, for how long, and its last fence.
    ///
    /// # Redis
    /// One read-only script, one round trip.
    ///
    /// # Errors
    /// As [`lock`](Self::lock); refused; unreachable.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn inspect(&self, name: impl AsRef<[u8]>) -> Result<Inspection, Error> {
        let keys = Keys::from(Key::new(&self.inner.prefix, name)?);
        let mut seen = self.inspect_all(&keys).await?;
        seen.pop().ok_or_else(|| Error::new(ErrorKind::Protocol, "inspect", "an empty reply").with_key(&keys))
    }

    pub(crate) async fn inspect_all(&self, keys: &Keys) -> Result<Vec<Inspection>, Error> {
        let answer =
            self.inner.backend.apply(Lane::Command, keys, Inspect, self.inner.response_timeout).await?;
        Ok(answer.reply)
    }

    /// Removes the holder that an operator was shown by [`inspect`](Self::inspect), and nobody else; raises the
    /// fence, so that a resource that checks fences refuses the removed holder as soon as the next one has written.
    /// Logged as a warning.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip.
    ///
    /// # Errors
    /// As [`lock`](Self::lock); not a lock; refused; unreachable; outcome unknown.
    ///
    /// # Cancel safety
    /// The holder may have been removed.
    pub async fn force_release(
        &self,
        name: impl AsRef<[u8]>,
        shown: &Holder,
    ) -> Result<ForceReleased, Error> {
        let keys = Keys::from(Key::new(&self.inner.prefix, name)?);
        let decision =
            ForceRelease { shown: shown.clone(), seen: self.inner.seen_fence(), not_after: Timestamp::MAX };
        let answer =
            self.inner.backend.apply(Lane::Command, &keys, decision, self.inner.response_timeout).await?;
        tracing::warn!(key = %keys, %shown, outcome = ?answer.reply, "forced release");
        Ok(match answer.reply {
            ForceReleaseReply::Released(fence) => ForceReleased::Released(fence),
            ForceReleaseReply::Free => ForceReleased::Free,
            ForceReleaseReply::HeldByAnother(holder) => ForceReleased::HeldByAnother(holder),
        })
    }

    /// Releases `name` if it is held with `token`, which may come from another process. Where the guard is at hand,
    /// [`LockGuard::release`](crate::LockGuard::release) knows more.
    ///
    /// # Redis
    /// One `EVALSHA`, one round trip. Inside: `TIME`, a `GET` and a `DEL`.
    ///
    /// # Errors
    /// As [`lock`](Self::lock); not a lock; refused; unreachable; outcome unknown. Repeating it is harmless, but then
    /// `Expired` may mean that the first one did it.
    ///
    /// # Cancel safety
    /// It may have been released.
    pub async fn release_token(&self, name: impl AsRef<[u8]>, token: &OwnerToken) -> Result<Released, Error> {
        let keys = Keys::from(Key::new(&self.inner.prefix, name)?);
        let decision = Release { token: token.clone() };
        let answer =
            self.inner.backend.apply(Lane::Command, &keys, decision, self.inner.response_timeout).await?;
        Ok(answer.reply.into())
    }
}
