//! Take messages out of the outbox.

use std::time::Duration;

use lockkeeper_core::{Decision, Timestamp, WrongType};

use super::state::{Message, Shard, only};

/// Hands up to `most` messages to a worker: first those that a worker took longer than `idle` ago and did not finish, for
/// it may be dead, then new ones; also where the store has lost the numbers of the shard. They stay in the outbox until somebody is [done](super::Done) with them.
///
/// A lost answer delays its messages by `idle`; a clock that is set back, by as much more. Nothing else.
#[derive(Clone, Debug)]
pub struct Take {
    /// Who takes them.
    pub worker: String,
    /// How many at most.
    pub most: usize,
    /// After how long others may have them. Whole milliseconds.
    pub idle: Duration,
}

/// The answer to a [`Take`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// What to do, the oldest first.
    pub messages: Vec<Message>,
    /// How many of them, from the front, somebody else had taken before.
    pub taken_over: usize,
}

impl Decision for Take {
    type State = Shard;
    type Reply = Taken;
    const NAME: &'static str = "take";
    const REPEATABLE: bool = false;

    fn decide(&self, cells: &mut [Shard], now: Timestamp) -> Result<Taken, WrongType> {
        let shard = only(cells)?;
        let now_ms = now.as_millis();
        let is_stale = |since: u64| self.idle.is_zero() || now_ms >= since.saturating_add(self.idle_ms());
        // Those that were taken come before those that were not, because they are taken in order.
        let (taken, fresh): (Vec<_>, Vec<_>) = {
            let boundary = shard.outbox.iter().position(|queued| queued.taken_ms.is_none());
            let boundary = boundary.unwrap_or(shard.outbox.len());
            let stale = (0..boundary).filter(|at| shard.outbox[*at].taken_ms.is_some_and(is_stale));
            (stale.take(self.most).collect(), (boundary..shard.outbox.len()).take(self.most).collect())
        };
        let taken_over = taken.len();
        let messages = taken.into_iter().chain(fresh).take(self.most).map(|at| {
            shard.outbox[at].taken_ms = Some(now_ms);
            shard.outbox[at].message.clone()
        });
        Ok(Taken { messages: messages.collect(), taken_over })
    }
}

impl Take {
    /// In milliseconds.
    pub(crate) fn idle_ms(&self) -> u64 {
        u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX)
    }
}
