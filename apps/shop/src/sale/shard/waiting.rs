//! How many tickets wait.

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Shard, only};

/// How many tickets are in the outbox, those that a worker has at the moment included; also where the store has lost the
/// numbers of the shard. Changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Waiting;

impl Decision for Waiting {
    type State = Shard;
    type Reply = u64;
    const NAME: &'static str = "waiting";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [Shard], _now: Timestamp) -> Result<u64, WrongType> {
        Ok(only(cells)?.outbox.len() as u64)
    }
}
