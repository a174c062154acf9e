//! Fences that grow over majorities.
//!
//! Each server has numbers of its own, so the greatest of a majority's answers is no fence yet: the next majority may share
//! with this one only servers that gave smaller ones. It becomes one when a majority *has* it. Two things see to that:
//! every request proposes a number a little ahead of all clocks, on which servers usually agree at once; and where they
//! did not, the number is written back to those that are behind it, to all at the same time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lockkeeper_core::lock::{Fence, OwnerToken, RaiseFence, RaiseFenceReply};
use lockkeeper_core::{Keys, Timestamp};

use super::Shared;
use super::roll::Roll;
use super::votes::Flight;
use crate::node::Lane;

/// How far ahead of the servers' clocks a number is proposed: what a request takes to get there, with room.
const AHEAD: Duration = Duration::from_millis(2);

/// What servers have granted.
pub(super) struct Granted<'a> {
    pub(super) token: &'a OwnerToken,
    /// The first number that each gave.
    pub(super) firsts: &'a [(usize, Fence)],
    /// How many numbers each has reserved.
    pub(super) block: u64,
}

impl Shared {
    /// What to say was seen, so that a majority answers the same number if nothing greater is there. Ahead of the clocks of
    /// a majority and no more, so that one that is hours ahead does not take all others with it.
    pub(super) fn propose(&self, roll: &Roll, seen: u64) -> u64 {
        let voters = self.nodes.iter().zip(&roll.runs).filter(|(_, run)| run.is_some());
        let mut clocks: Vec<_> = voters.map(|(node, _)| node.on(Lane::Command).server_now()).collect();
        clocks.sort_unstable();
        clocks.get(self.majority.needed() - 1).map_or(seen, |now| seen.max(now.after(AHEAD).as_micros()))
    }

    /// Makes the fence that `firsts` give known to a majority. `None`: too few could be told.
    pub(super) async fn agree(
        self: &Arc<Self>,
        lane: Lane,
        at: &Keys,
        granted: Granted<'_>,
        roll: &Roll,
        within: Duration,
    ) -> Option<Fence> {
        let Granted { token, firsts, block } = granted;
        let (fence, mut told) = self.majority.fence(firsts.iter().map(|(_, first)| *first).collect())?;
        if self.majority.is_reached(told) {
            return Some(fence);
        }
        let to = fence.get().saturating_add(block.saturating_sub(1));
        let raise = RaiseFence { token: token.clone(), to, not_after: Timestamp::MAX };
        let mut flight: Flight<RaiseFenceReply> = firsts
            .iter()
            .filter(|(_, first)| *first < fence)
            .map(|(node, _)| {
                let run = roll.runs.get(*node).cloned().flatten();
                self.send(lane, *node, at, raise.clone(), within, run)
            })
            .collect();
        while let Some((_, result)) = flight.next().await {
            told += usize::from(result.is_ok_and(|answer| answer.reply == RaiseFenceReply::Raised));
            if self.majority.is_reached(told) {
                return Some(fence);
            }
        }
        None
    }
}
