//! Remove messages that have been dealt with.

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Shard, only};

/// Removes messages from the outbox. Answers how many were there.
#[derive(Clone, Debug)]
pub struct Done {
    /// Their names.
    pub ids: Vec<String>,
}

impl Decision for Done {
    type State = Shard;
    type Reply = u64;
    const NAME: &'static str = "done";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], _now: Timestamp) -> Result<u64, WrongType> {
        let shard = only(cells)?;
        let mut removed = 0;
        for id in &self.ids {
            if let Some(at) = shard.outbox.iter().position(|queued| queued.message.id == *id) {
                shard.outbox.remove(at);
                removed += 1;
            }
        }
        Ok(removed)
    }
}
