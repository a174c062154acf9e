//! A token that the server may hold and nobody owns yet.

use std::time::Duration;

use lockkeeper_core::lock::{Lasting, Lease, OwnerToken};
use lockkeeper_core::{Answer, Error, ErrorKind, Keys, Timestamp, Uptime};

use super::give_back::{Doubt, GiveBack, Kind};
use crate::keeper::Inner;

/// A request that takes something, from before it is sent until its outcome is settled. Dropped while armed, its token
/// is given back.
///
/// Invariants 5 and 8: whatever may have been taken and is not held is given back in the background, and its token
/// is never used again.
pub(crate) struct Claim<'a> {
    inner: &'a Inner,
    keys: &'a Keys,
    pub(crate) token: OwnerToken,
    kind: Kind,
    lease: Lease,
    within: Duration,
    sent: Uptime,
    not_after: Option<Timestamp>,
    /// The answer came: beyond `not_after`, nothing is in doubt.
    answered: bool,
    armed: bool,
}

/// What a claim became.
pub(crate) struct Claimed {
    pub(crate) token: OwnerToken,
    pub(crate) sent: Uptime,
    /// Until then, by the server's clock, a second copy of the request may arrive there.
    pub(crate) in_doubt_until: Option<Timestamp>,
}

impl<'a> Claim<'a> {
    /// To be sent at once, and answered within `within`.
    pub(crate) fn new(
        inner: &'a Inner,
        keys: &'a Keys,
        token: OwnerToken,
        kind: Kind,
        lease: Lease,
        within: Duration,
    ) -> Self {
        let sent = inner.clock.uptime();
        Self { inner, keys, token, kind, lease, within, sent, not_after: None, answered: false, armed: true }
    }

    /// Notes how long the request may still take effect.
    pub(crate) fn note<R>(&mut self, answer: Result<Answer<R>, Error>) -> Result<Answer<R>, Error> {
        match &answer {
            // An earlier copy of the request may still be on its way; it takes nothing after this.
            Ok(answer) => {
                self.answered = true;
                self.not_after = (answer.sent > 1).then(|| answer.at.after(self.within));
            }
            Err(error) => match error.kind() {
                ErrorKind::OutcomeUnknown { not_after } => self.not_after = not_after,
                _ if error.may_have_been_applied() => {}
                _ => self.armed = false,
            },
        }
        answer
    }

    /// The same for a request that had to last. Where it was granted and does not, it is given back.
    pub(crate) fn note_lasting<R>(
        &mut self,
        lasting: Result<Lasting<R>, Error>,
        operation: &'static str,
    ) -> Result<R, Error> {
        let (answer, shortfall) = match lasting {
            Ok(Lasting { answer, shortfall }) => (Ok(answer), shortfall),
            Err(error) => (Err(error), None),
        };
        let reply = self.note(answer)?.reply;
        match shortfall {
            None => Ok(reply),
            Some(shortfall) => Err(shortfall.into_error(operation).with_key(self.keys)),
        }
    }

    /// It was granted, and is the caller's concern from now on.
    pub(crate) fn granted(mut self) -> Result<Claimed, Error> {
        if self.inner.clock.uptime() >= self.lease.deadline(self.sent) {
            return Err(Error::new(ErrorKind::Lost, "acquire", "the lease ended before the answer came")
                .with_key(self.keys));
        }
        self.armed = false;
        Ok(Claimed { token: self.token.clone(), sent: self.sent, in_doubt_until: self.not_after })
    }

    /// It was answered and took nothing, unless an earlier copy is still in doubt: until when.
    pub(crate) fn refused(mut self) -> Option<Timestamp> {
        self.armed = self.not_after.is_some();
        self.not_after
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let inner = self.inner;
        // A future that was dropped: the store stamped no later than what was left of the limit from now on.
        let latest = || inner.backend.server_now_at(self.keys).map(|now| now.after(self.within));
        let doubt = match self.not_after {
            Some(not_after) => Doubt::Until(not_after),
            None if self.answered => Doubt::None,
            None => latest().map_or(Doubt::For(self.within), Doubt::Until),
        };
        let now = inner.clock.uptime();
        let give_up = now.after(self.within).after(self.within).after(self.lease.as_duration());
        let give_up = give_up.max(now.after(self.kind.patience()));
        let (keys, token) = (self.keys.clone(), self.token.clone());
        inner.give_back(GiveBack::new(keys, token, doubt, give_up).of(self.kind.clone()));
    }
}
