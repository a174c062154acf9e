//! A record for people and for programs.

use lockkeeper::{OnceInspection, OncePhase};
use serde::Serialize;

use crate::common;
use crate::ls::millis;

/// What JSON shows of a record, besides its key.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    phase: &'static str,
    attempt: u64,
    fence: u64,
    remaining_ms: u64,
    holder: String,
    holder_id: String,
    acquired_ms: Option<u64>,
    result_bytes: Option<u64>,
    result_is_whole: Option<bool>,
}

impl Facts {
    pub(super) fn of(seen: &OnceInspection) -> Self {
        Self {
            phase: word(seen.phase),
            attempt: seen.attempt,
            fence: seen.fence.get(),
            remaining_ms: millis(seen.remaining),
            holder: seen.holder.to_string(),
            holder_id: seen.holder.id(),
            acquired_ms: seen.holder.acquired_at().map(|at| at.as_millis()),
            result_bytes: seen.result.map(|(bytes, _)| bytes),
            result_is_whole: seen.result.map(|(_, is_whole)| is_whole),
        }
    }
}

/// The phase in a word.
pub(super) fn word(phase: OncePhase) -> &'static str {
    match phase {
        OncePhase::Absent => "absent",
        OncePhase::Running => "running",
        OncePhase::Lapsed => "lapsed",
        OncePhase::Unknown => "unknown",
        OncePhase::Completed => "completed",
        OncePhase::Open => "open",
    }
}

/// The phase in a sentence.
pub(super) fn sentence(seen: &OnceInspection) -> &'static str {
    match seen.phase {
        OncePhase::Absent => "is not remembered",
        OncePhase::Running => "is running",
        OncePhase::Lapsed => "has lapsed: its attempt went away, and the next caller runs it again",
        OncePhase::Unknown => "is unknown: its attempt went away, and nobody runs it until it is resolved",
        OncePhase::Completed => "is completed",
        OncePhase::Open => "is open: it ended without an effect, and the next caller runs it",
    }
}

/// What there is to say, by name.
pub(super) fn facts(seen: &OnceInspection) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("attempt", seen.attempt.to_string()),
        ("fence", seen.fence.to_string()),
        ("holder", seen.holder.to_string()),
        ("holder id", seen.holder.id()),
        ("remaining", common::rounded(seen.remaining)),
    ];
    facts.extend(seen.result.map(|(bytes, is_whole)| {
        let size = format!("{bytes} bytes");
        ("result", if is_whole { size } else { format!("not kept; {size} about it") })
    }));
    facts
}
