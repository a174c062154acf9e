//! Watch: take all keys if all are free, or note that somebody waits and say how long is left.
//!
//! One step, so that there is no gap in which a wake-up is lost: whoever was told *busy* is registered by then.

use super::acquire::{Acquire, AcquireReply, Busy};
use super::cell::LockCell;
use super::fence::Fence;
use super::presence::Waiter;
use crate::decision::{Decision, WrongType};
use crate::time::Timestamp;

/// What a waiting keeper sends: an [`Acquire`] that, where it is refused, leaves a note of presence.
///
/// *Repeating* is as harmless as with [`Acquire`].
#[derive(Clone, Debug)]
pub struct Watch {
    /// What is asked for.
    pub acquire: Acquire,
    /// The keeper, and how many of its callers wait, the one asked for included.
    pub waiter: Waiter,
}

/// The answer to a [`Watch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchReply {
    /// Held, or who is in the way.
    pub outcome: WatchOutcome,
    /// Another keeper waits for one of the keys.
    pub others_wait: bool,
}

/// Held, or who is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchOutcome {
    /// All keys are held with the token. The (first) fence.
    Granted(Fence),
    /// At least one key is held by somebody else.
    Busy(Busy),
}

impl Decision for Watch {
    type State = LockCell;
    type Reply = WatchReply;
    const NAME: &'static str = "watch";
    const REPEATABLE: bool = true;

    fn decide(&self, cells: &mut [LockCell], now: Timestamp) -> Result<WatchReply, WrongType> {
        let reply = self.acquire.decide(cells, now)?;
        let others_wait = cells.iter().any(|cell| cell.present.has_others_than(&self.waiter.keeper));
        let outcome = match reply {
            AcquireReply::Granted(fence) => {
                let left = Waiter { count: self.waiter.count.saturating_sub(1), ..self.waiter.clone() };
                cells.iter_mut().for_each(|cell| cell.note_or_forget(&left, now));
                WatchOutcome::Granted(fence)
            }
            AcquireReply::Busy(busy) => {
                for cell in cells {
                    cell.note_or_forget(&self.waiter, now);
                    cell.rearm_fence(now);
                }
                WatchOutcome::Busy(busy)
            }
        };
        Ok(WatchReply { outcome, others_wait })
    }

    fn not_after(&self) -> Option<Timestamp> {
        self.acquire.not_after()
    }
    fn set_not_after(&mut self, not_after: Timestamp) {
        self.acquire.set_not_after(not_after);
    }
}
