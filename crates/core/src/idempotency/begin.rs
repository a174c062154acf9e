//! Begin: claim the right to run, or learn why not.

use std::time::Duration;

use super::cell::{OnceCell, only};
use super::fingerprint::Fingerprint;
use super::policy::{OnCrash, Retention};
use super::record::{MAX_ATTEMPTS, MAX_ENDS, Phase, Record, RecordState};
use super::stored::Stored;
use crate::decision::{Decision, WrongType};
use crate::lock::{Fence, FenceRequest, Holder, Lease, OwnerToken};
use crate::time::Timestamp;

/// Claims the key for `token`, unless somebody runs it, its outcome is unknown, or it has a result.
///
/// *Repeating* with the same token is harmless: while the claim runs, its lease is restarted (never shortened) and the
/// same fence, attempt and takeover are answered.
#[derive(Clone, Debug)]
pub struct Begin {
    /// Unique per attempt.
    pub token: OwnerToken,
    /// How long the claim lives without a sign of life, from the moment of the decision.
    pub lease: Lease,
    /// What becomes of the claim when its executor goes away.
    pub on_crash: OnCrash,
    /// How long the key is remembered after its end.
    pub retain: Retention,
    /// The request.
    pub fingerprint: Fingerprint,
    /// The highest fence that this client has seen; zero if none.
    pub seen: u64,
    /// See [`Decision::not_after`].
    pub not_after: Timestamp,
}

/// The answer to a [`Begin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeginReply {
    /// The token has the right to run.
    Claimed {
        /// Greater than that of every attempt before it, while the record lives.
        fence: Fence,
        /// The first is one.
        attempt: u64,
        /// An attempt before it crashed, and nobody found out since whether it had its effect.
        takeover: bool,
    },
    /// Another attempt has the right to run.
    Running {
        /// Whose.
        holder: Holder,
        /// Which.
        attempt: u64,
        /// What is left of its lease.
        remaining: Duration,
    },
    /// It has ended.
    Completed {
        /// With what.
        stored: Stored,
        /// Under which fence.
        fence: Fence,
        /// How long it is still remembered.
        remaining: Duration,
    },
    /// The key belongs to a different request.
    DifferentRequest,
    /// An attempt went away, and nobody knows whether it had its effect.
    Unknown {
        /// Whose.
        holder: Holder,
        /// Its fence; an operator names it to resolve.
        fence: Fence,
        /// How long that is held.
        remaining: Duration,
    },
}

impl Decision for Begin {
    type State = OnceCell;
    type Reply = BeginReply;
    const NAME: &'static str = "begin";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [OnceCell], now: Timestamp) -> Result<BeginReply, WrongType> {
        let cell = only(cells)?;
        cell.repair();
        let Some((record, phase)) = cell.live(now) else { return Ok(self.claim(cell, 1, false, now)) };
        if phase != Phase::Open && record.fingerprint != self.fingerprint {
            return Ok(BeginReply::DifferentRequest);
        }
        let attempt = record.attempt;
        match phase {
            Phase::Running if record.token == self.token => Ok(self.claim_again(cell, now)),
            Phase::Open => Ok(self.claim(cell, attempt + 1, false, now)),
            Phase::Lapsed => Ok(self.claim(cell, attempt + 1, true, now)),
            _ => Ok(refusal(record, phase, now)),
        }
    }

    fn not_after(&self) -> Option<Timestamp> {
        Some(self.not_after)
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.not_after = not_after;
    }
}

impl Begin {
    fn claim(&self, cell: &mut OnceCell, attempt: u64, takeover: bool, now: Timestamp) -> BeginReply {
        let (fence, _) = FenceRequest { seen: self.seen, block: 1 }.next(cell.last_fence(), now);
        let attempt = attempt.min(MAX_ATTEMPTS);
        cell.keep(Record {
            state: RecordState::Running { takeover },
            fence: fence.get(),
            attempt,
            ends: self.lease_end(now),
            hold: self.on_crash.hold_micros(),
            retain: self.retain.as_micros(),
            fingerprint: self.fingerprint,
            token: self.token.clone(),
        });
        BeginReply::Claimed { fence, attempt, takeover }
    }

    fn claim_again(&self, cell: &mut OnceCell, now: Timestamp) -> BeginReply {
        let mut reply = BeginReply::DifferentRequest;
        cell.change(|record| {
            record.ends = record.ends.max(self.lease_end(now));
            let (fence, attempt) = (Fence::new(record.fence), record.attempt);
            let takeover = record.state == RecordState::Running { takeover: true };
            reply = BeginReply::Claimed { fence, attempt, takeover };
        });
        reply
    }

    fn lease_end(&self, now: Timestamp) -> u64 {
        lease_end(self.lease, now)
    }
}

/// When a lease from now on ends, in microseconds.
pub(super) fn lease_end(lease: Lease, now: Timestamp) -> u64 {
    now.after(lease.as_duration()).as_micros().min(MAX_ENDS)
}

fn refusal(record: &Record, phase: Phase, now: Timestamp) -> BeginReply {
    let left = |until: u64| Timestamp::from_micros(until).since(now);
    let (holder, fence) = (record.token.holder(), Fence::new(record.fence));
    match (&record.state, phase) {
        (RecordState::Completed(stored), _) => {
            BeginReply::Completed { stored: stored.clone(), fence, remaining: left(record.ends) }
        }
        (_, Phase::Unknown) => {
            BeginReply::Unknown { holder, fence, remaining: left(record.ends + record.hold) }
        }
        _ => BeginReply::Running { holder, attempt: record.attempt, remaining: left(record.ends) },
    }
}
