//! Inspect: look at a record without changing it.

use std::time::Duration;

use super::cell::{OnceCell, only};
use super::record::{Phase, Record, RecordState};
use crate::decision::{Decision, WrongType};
use crate::lock::{Fence, Holder};
use crate::time::Timestamp;

/// Says what is kept. Changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct InspectOnce;

/// One record, as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceInspection {
    /// What it means now. Never absent.
    pub phase: Phase,
    /// Of the last attempt, or the operator who resolved it.
    pub holder: Holder,
    /// Of the last attempt.
    pub fence: Fence,
    /// How many attempts there were.
    pub attempt: u64,
    /// Until this phase ends by itself: the lease, the time an unknown outcome is held, or the retention.
    pub remaining: Duration,
    /// The bytes that are kept of a result, and whether they are all of it.
    pub result: Option<(u64, bool)>,
}

impl Decision for InspectOnce {
    type State = OnceCell;
    type Reply = Option<OnceInspection>;
    const NAME: &'static str = "inspect_once";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [OnceCell], now: Timestamp) -> Result<Option<OnceInspection>, WrongType> {
        let cell = only(cells)?;
        Ok(cell.live(now).map(|(record, phase)| inspection(record, phase, now)))
    }
}

fn inspection(record: &Record, phase: Phase, now: Timestamp) -> OnceInspection {
    let until = match phase {
        Phase::Running => record.ends,
        Phase::Unknown => record.ends + record.hold,
        _ => record.kept_until(),
    };
    let result = match &record.state {
        RecordState::Completed(stored) => Some((stored.bytes().len() as u64, stored.is_whole())),
        RecordState::Running { .. } | RecordState::Open => None,
    };
    OnceInspection {
        phase,
        holder: record.token.holder(),
        fence: Fence::new(record.fence),
        attempt: record.attempt,
        remaining: Timestamp::from_micros(until).since(now),
        result,
    }
}
