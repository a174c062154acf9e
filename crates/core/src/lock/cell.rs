//! What a store keeps for one lock: the main key (token and expiry) and the side keys (fence, presence).

use std::time::Duration;

use super::fence::{FENCE_MAX, FENCE_RETENTION, Fence, FenceRequest, MAX_FENCE_BLOCK};
use super::lease::Lease;
use super::presence::{Present, Waiter};
use super::token::{Holder, OwnerToken};
use crate::decision::{State, WrongType};
use crate::time::{Timestamp, micros_of};

/// One lock's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockCell {
    /// The main key: a plain string with an expiry, as every common Redis lock writes it.
    pub main: Main,
    /// The side key with the fence.
    pub fence: FenceMark,
    /// The side key with who waits.
    pub present: Present,
}

/// The main key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Main {
    /// Absent.
    #[default]
    Free,
    /// Held by somebody: us or a foreign client.
    Held(Occupant),
    /// A list, a hash, …: not a lock.
    WrongType,
}

/// A held main key. Expiries are milliseconds of the server's clock, as Redis keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupant {
    /// The value.
    pub token: OwnerToken,
    /// `None`: no expiry, which foreign clients do.
    pub expires_ms: Option<u64>,
}

/// The side key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FenceMark {
    /// Absent.
    #[default]
    Absent,
    /// The last reserved number.
    Last {
        /// The number.
        number: u64,
        /// When the mark goes.
        expires_ms: u64,
    },
    /// Not a number of ours.
    WrongType,
}

impl State for LockCell {
    const NOUN: &'static str = "a lock";

    fn expire(&mut self, now: Timestamp) {
        let now_ms = now.as_millis();
        if matches!(&self.main, Main::Held(Occupant { expires_ms: Some(at), .. }) if now_ms > *at) {
            self.main = Main::Free;
        }
        if matches!(&self.fence, FenceMark::Last { expires_ms, .. } if now_ms > *expires_ms) {
            self.fence = FenceMark::Absent;
        }
        self.present.expire(now_ms);
    }

    fn is_empty(&self) -> bool {
        self.main == Main::Free && self.fence == FenceMark::Absent && self.present.is_empty()
    }
}

impl Occupant {
    pub(super) fn holder(&self) -> Holder {
        self.token.holder()
    }

    /// `None`: for ever.
    pub(super) fn remaining(&self, now: Timestamp) -> Option<Duration> {
        self.expires_ms.map(|at| Duration::from_millis(at.saturating_sub(now.as_millis())))
    }
}

impl LockCell {
    /// Who occupies the main key.
    pub(super) fn occupant(&self) -> Option<&Occupant> {
        match &self.main {
            Main::Held(occupant) => Some(occupant),
            _ => None,
        }
    }

    /// Somebody, or something that is not a lock, occupies the main key at `now`.
    pub(crate) fn is_taken(&self, now: Timestamp) -> bool {
        match &self.main {
            Main::Free => false,
            Main::Held(occupant) => occupant.expires_ms.is_none_or(|at| now.as_millis() <= at),
            Main::WrongType => true,
        }
    }

    pub(super) fn is_held_with(&self, token: &OwnerToken) -> bool {
        self.occupant().is_some_and(|occupant| occupant.token == *token)
    }

    /// Takes the main key afresh.
    pub(super) fn take(&mut self, token: &OwnerToken, lease: Lease, now: Timestamp) {
        let expires_ms = Some(now.as_millis() + lease.as_millis());
        self.main = Main::Held(Occupant { token: token.clone(), expires_ms });
    }

    /// Writes the last reserved number; it outlives the lease by [`FENCE_RETENTION`].
    pub(super) fn mark(&mut self, number: u64, lease: Duration, now: Timestamp) {
        let expires_ms = now.after(lease).as_millis() + retention_ms();
        self.fence = FenceMark::Last { number, expires_ms };
    }

    /// Lengthens the lease to `lease` from now; a longer one stays (invariant 4). Re-arms the fence's expiry.
    pub(super) fn lengthen(&mut self, lease: Lease, now: Timestamp) {
        let now_ms = now.as_millis();
        let Main::Held(occupant) = &mut self.main else { return };
        let ends = occupant.expires_ms.unwrap_or(0).max(now_ms + lease.as_millis());
        occupant.expires_ms = Some(ends);
        self.rearm_fence(now);
    }

    /// The fence's mark outlives the lease, or this moment, by [`FENCE_RETENTION`].
    pub(super) fn rearm_fence(&mut self, now: Timestamp) {
        let ends = self.occupant().and_then(|occupant| occupant.expires_ms).unwrap_or(0);
        if let FenceMark::Last { expires_ms, .. } = &mut self.fence {
            *expires_ms = ends.max(now.as_millis()) + retention_ms();
        }
    }

    /// Notes who waits; nobody is no note.
    pub(super) fn note_or_forget(&mut self, waiter: &Waiter, now: Timestamp) {
        if waiter.count > 0 {
            self.present.note(waiter, now);
        } else {
            self.present.remove(&waiter.keeper);
        }
    }
}

fn retention_ms() -> u64 {
    micros_of(FENCE_RETENTION) / 1000
}

/// Refuses when a main key is of another type.
pub(super) fn check_mains(cells: &[LockCell]) -> Result<(), WrongType> {
    match cells.iter().position(|cell| cell.main == Main::WrongType) {
        Some(index) => Err(WrongType { index, side: false }),
        None => Ok(()),
    }
}

/// The highest of the stored fences, zero if there is none.
///
/// # Errors
/// A side key is not ours.
pub(super) fn highest_fence(cells: &[LockCell]) -> Result<u64, WrongType> {
    let mut highest = 0;
    for (index, cell) in cells.iter().enumerate() {
        match cell.fence {
            FenceMark::Absent => {}
            FenceMark::Last { number, .. } if number <= FENCE_MAX - u64::from(MAX_FENCE_BLOCK) => {
                highest = highest.max(number);
            }
            // Nothing of ours comes near the end of the numbers: somebody else wrote it.
            FenceMark::Last { .. } | FenceMark::WrongType => return Err(WrongType { index, side: true }),
        }
    }
    Ok(highest)
}

/// Takes every cell for `token` under one new fence.
pub(super) fn take_all(
    cells: &mut [LockCell],
    token: &OwnerToken,
    lease: Lease,
    fences: FenceRequest,
    previous: u64,
    now: Timestamp,
) -> Fence {
    let (first, last) = fences.next(previous, now);
    for cell in cells {
        cell.take(token, lease, now);
        cell.mark(last, lease.as_duration(), now);
    }
    first
}
