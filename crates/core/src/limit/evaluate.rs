//! The decision itself: calls in their order, each all or nothing over all limits.

use std::time::Duration;

use super::ask::Ask;
use super::level::Level;
use super::standing::{Checked, Outcome, Standing, Standings};

/// What can be decided on: a level of any algorithm, or of a known one.
pub(super) trait Holds {
    /// The most that can ever be there.
    fn capacity(&self) -> u64;
    /// What a call could take at once.
    fn available(&self) -> u64;
    /// So much is there.
    fn has(&self, cost: u64) -> bool;
    /// Takes `cost`, of which there must be enough.
    fn take(&mut self, cost: u64);
    /// When so much would be there. `None`: never, or not known here.
    fn retry_after(&self, cost: u64) -> Option<Duration>;
    /// How it stands, for one who still waits for `cost` (0: for nothing).
    fn standing(&self, cost: u64) -> Standing;
}

/// Decides `asks` one after another on `levels`, taking what is granted. A refused call takes nothing, so it does not
/// stand in the way of a smaller one behind it.
///
/// A store calls it on what is kept, or on what was kept before a script of its own decided the same.
pub fn evaluate(levels: &mut [Level], asks: &[Ask]) -> Vec<Checked> {
    asks.iter().map(|ask| one(levels, *ask)).collect()
}

/// Decides one call.
#[inline]
pub(super) fn one<L: Holds>(levels: &mut [L], ask: Ask) -> Checked {
    let outcome = settle(levels, ask);
    Checked { outcome, standings: standings(levels, outcome.waits_for(ask)) }
}

/// Decides one call, and says no more.
#[inline]
pub(super) fn settle<L: Holds>(levels: &mut [L], ask: Ask) -> Outcome {
    let outcome = decide(levels, ask);
    if let Outcome::Allowed { granted } = outcome {
        levels.iter_mut().for_each(|level| level.take(granted));
    }
    outcome
}

/// What is answered of a decision on one level, which may have been let go of.
#[inline]
pub(super) fn answer<L: Holds>(outcome: Outcome, level: &L, ask: Ask) -> Checked {
    Checked { outcome, standings: standings(std::slice::from_ref(level), outcome.waits_for(ask)) }
}

impl Outcome {
    /// For how much one who asked still waits: who was granted waits for nothing.
    #[inline]
    fn waits_for(self, ask: Ask) -> u64 {
        match self {
            Self::Allowed { .. } => 0,
            Self::Denied { .. } | Self::Never { .. } => ask.least(),
        }
    }
}

/// What would be decided, without taking.
#[inline]
fn decide<L: Holds>(levels: &[L], ask: Ask) -> Outcome {
    if let Some(by) = levels.iter().position(|level| ask.least() > level.capacity()) {
        return Outcome::Never { by };
    }
    if levels.iter().all(|level| level.has(ask.least())) {
        return Outcome::Allowed {
            granted: if ask.partial { available(levels).min(ask.cost) } else { ask.cost },
        };
    }
    Outcome::Denied { by: longest(levels, ask.least()) }
}

/// Which of those that have less than `cost` has so much last.
fn longest<L: Holds>(levels: &[L], cost: u64) -> usize {
    if levels.len() == 1 {
        return 0;
    }
    let refusing = levels.iter().enumerate().filter(|(_, level)| !level.has(cost));
    refusing.max_by_key(|(_, level)| level.retry_after(cost)).map_or(0, |(by, _)| by)
}

fn available<L: Holds>(levels: &[L]) -> u64 {
    levels.iter().map(Holds::available).min().unwrap_or(u64::MAX)
}

/// How all stand, for one who still waits for `cost`.
#[inline]
pub(super) fn standings<L: Holds>(levels: &[L], cost: u64) -> Standings {
    match levels {
        [level] => Standings::from_buf([level.standing(cost)]),
        levels => levels.iter().map(|level| level.standing(cost)).collect(),
    }
}

/// What would be decided, and how each limit stands for such a call.
pub(super) fn look(levels: &[Level], ask: Ask) -> Checked {
    Checked { outcome: decide(levels, ask), standings: standings(levels, ask.least()) }
}
