//! Looking: what a call would be answered, without taking.

use std::sync::Arc;

use super::ask::Ask;
use super::cell::LimitCell;
use super::evaluate::look;
use super::level::{Level, load_all};
use super::quota::Quota;
use super::standing::Checked;
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// What `ask` would be answered now. Changes nothing, repairs nothing: where the clock was set back so far that the next
/// check will repair what is stored, the times answered hold from that check on.
#[derive(Clone, Debug)]
pub struct Peek {
    /// The limits.
    pub quotas: Arc<[Quota]>,
    /// The call that would be made.
    pub ask: Ask,
}

impl Decision for Peek {
    type State = LimitCell;
    type Reply = Checked;
    const NAME: &'static str = "peek";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LimitCell], now: Timestamp) -> Result<Checked, WrongType> {
        Ok(Self::of(&load_all(&self.quotas, cells, now)?, self.ask))
    }
}

impl Peek {
    /// What `ask` would be answered on `levels`.
    pub fn of(levels: &[Level], ask: Ask) -> Checked {
        look(levels, ask)
    }
}
