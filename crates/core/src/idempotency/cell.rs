//! What a store keeps for one key of idempotency.

use super::record::{Phase, Record};
use crate::decision::{State, WrongType};
use crate::lock::{Holder, OwnerToken};
use crate::time::Timestamp;

/// One key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnceCell {
    /// Nothing.
    #[default]
    Absent,
    /// A record of ours. Its expiry is in milliseconds of the server's clock; `None` where somebody removed it.
    Kept(Box<Record>, Option<u64>),
    /// A list, a text that is no record of ours, …
    WrongType,
}

/// Why a claim is not the caller's to end or to lengthen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strayed {
    /// The record is gone: retained no longer, evicted, flushed.
    Gone,
    /// Its lease ended. Nobody took it over yet.
    Lapsed,
    /// Somebody else has it: another attempt, or an operator who resolved it.
    TakenOver(Holder),
    /// It has ended already.
    Settled,
}

impl State for OnceCell {
    const NOUN: &'static str = "a record of idempotency";

    fn expire(&mut self, now: Timestamp) {
        if matches!(self, Self::Kept(_, Some(at)) if now.as_millis() > *at) {
            *self = Self::Absent;
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::Absent
    }
}

impl OnceCell {
    /// Writes a record with its expiry.
    pub(super) fn keep(&mut self, record: Record) {
        let expires_ms = Some(record.expires_ms());
        *self = Self::Kept(Box::new(record), expires_ms);
    }

    /// Gives a record that lost its expiry one.
    pub(super) fn repair(&mut self) {
        if let Self::Kept(record, expiry @ None) = self {
            *expiry = Some(record.expires_ms());
        }
    }

    /// Changes the record, and its expiry with it.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Record)) {
        if let Self::Kept(record, expiry) = self {
            change(record);
            *expiry = Some(record.expires_ms());
        }
    }

    /// The record and its phase; none where its time is over.
    pub(super) fn live(&self, now: Timestamp) -> Option<(&Record, Phase)> {
        match self {
            Self::Kept(record, _) => {
                Some((&**record, record.phase(now))).filter(|(_, phase)| *phase != Phase::Absent)
            }
            _ => None,
        }
    }

    /// The record and its phase, if `token` has it.
    pub(super) fn claimed_by(&self, token: &OwnerToken, now: Timestamp) -> Result<(&Record, Phase), Strayed> {
        match self.live(now) {
            None => Err(Strayed::Gone),
            Some((record, _)) if record.token != *token => Err(Strayed::TakenOver(record.token.holder())),
            Some(live) => Ok(live),
        }
    }

    /// The greatest fence that was given here, as far as is known.
    pub(super) fn last_fence(&self) -> u64 {
        match self {
            Self::Kept(record, _) => record.fence,
            _ => 0,
        }
    }
}

/// The one key that a decision is about.
///
/// # Errors
/// It holds something else.
pub(super) fn only(cells: &mut [OnceCell]) -> Result<&mut OnceCell, WrongType> {
    match cells.first_mut() {
        Some(OnceCell::WrongType) | None => Err(WrongType { index: 0, side: false }),
        Some(cell) => Ok(cell),
    }
}
