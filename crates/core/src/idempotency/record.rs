//! The record of one key, and what it means at a moment.

use crate::lock::{FENCE_MAX, MAX_FENCE_BLOCK, OwnerToken};
use crate::time::Timestamp;

use super::fingerprint::Fingerprint;
use super::policy::{OnCrash, Retention};
use super::stored::Stored;

/// Attempts are counted up to here.
pub const MAX_ATTEMPTS: u64 = 1_000_000_000;
/// No lease and no retention ends later than this, in microseconds of the server's clock: with hold and retention it stays
/// below 2^53, which the scripts count in. Reached in the year 2253.
pub const MAX_ENDS: u64 = 8_940_000_000_000_000;

/// What is kept under one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Running, completed, or open again.
    pub state: RecordState,
    /// Of the last attempt.
    pub fence: u64,
    /// How many attempts there were.
    pub attempt: u64,
    /// When the lease ends (running) or the record does, in microseconds of the server's clock.
    pub ends: u64,
    /// How long an unknown outcome is held; zero: the next caller runs it again.
    pub hold: u64,
    /// How long the key is remembered after its end.
    pub retain: u64,
    /// The request.
    pub fingerprint: Fingerprint,
    /// Of the last attempt, or of the operator who resolved it.
    pub token: OwnerToken,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// Claimed; whether it runs still, its lease says.
    Running {
        /// An attempt before it crashed. It may have had its effect, whatever becomes of this one: only a result, or an
        /// operator's word, lets that be forgotten.
        takeover: bool,
    },
    /// It ended with this.
    Completed(Stored),
    /// It ended without an effect; the next caller runs it.
    Open,
}

/// What a record means at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Nothing is there, or its time is over.
    Absent,
    /// An attempt has the right to run.
    Running,
    /// The attempt's lease ended; the next caller runs it again.
    Lapsed,
    /// The attempt's lease ended; whether it had its effect is not known, and nobody runs it.
    Unknown,
    /// It ended, with a result.
    Completed,
    /// It ended without an effect; the next caller runs it.
    Open,
}

impl Record {
    /// What it means at `now`.
    pub fn phase(&self, now: Timestamp) -> Phase {
        let now = now.as_micros();
        if now >= self.kept_until() {
            return Phase::Absent;
        }
        match self.state {
            RecordState::Completed(_) => Phase::Completed,
            RecordState::Open => Phase::Open,
            RecordState::Running { .. } if now < self.ends => Phase::Running,
            RecordState::Running { .. } if now < self.ends + self.hold => Phase::Unknown,
            RecordState::Running { .. } => Phase::Lapsed,
        }
    }

    /// When the key goes, in microseconds. A claim is remembered beyond its lease: attempts are counted, its request keeps
    /// the key, and its fence keeps growing.
    pub fn kept_until(&self) -> u64 {
        match self.state {
            RecordState::Running { .. } => self.ends + self.hold + self.retain,
            RecordState::Completed(_) | RecordState::Open => self.ends,
        }
    }

    /// When the key goes, in milliseconds, rounded up, as a server keeps it.
    pub fn expires_ms(&self) -> u64 {
        self.kept_until().div_ceil(1000)
    }

    /// Its numbers are such as ours can be.
    pub(super) fn is_sound(&self) -> bool {
        let longest = super::policy::MAX_RETENTION.as_micros() as u64;
        self.fence <= FENCE_MAX - u64::from(MAX_FENCE_BLOCK)
            && self.attempt <= MAX_ATTEMPTS
            && self.ends <= MAX_ENDS
            && self.hold <= longest
            && self.retain <= longest
    }

    /// What becomes of it when its attempt goes away.
    pub fn on_crash(&self) -> OnCrash {
        OnCrash::of_micros(self.hold)
    }

    /// It ended: in this `state`, remembered until `ends`.
    pub(super) fn settle(&mut self, state: RecordState, ends: u64) {
        (self.state, self.ends) = (state, ends);
    }
}

/// `now` and the retention, in microseconds.
pub(super) fn retained(retain: Retention, now: Timestamp) -> u64 {
    (now.as_micros() + retain.as_micros()).min(MAX_ENDS)
}
