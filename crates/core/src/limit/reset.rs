//! Resetting: as if nobody had ever called.

use std::sync::Arc;

use super::cell::LimitCell;
use super::level::load_all;
use super::quota::Quota;
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// Forgets everything that was taken. Answers how many of the limits had something to forget.
#[derive(Clone, Debug)]
pub struct Reset {
    /// The limits.
    pub quotas: Arc<[Quota]>,
}

impl Decision for Reset {
    type State = LimitCell;
    type Reply = usize;
    const NAME: &'static str = "reset";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LimitCell], now: Timestamp) -> Result<usize, WrongType> {
        load_all(&self.quotas, cells, now)?;
        let used = cells.iter_mut().map(|cell| std::mem::take(cell) != LimitCell::default());
        Ok(used.filter(|was_used| *was_used).count())
    }
}
