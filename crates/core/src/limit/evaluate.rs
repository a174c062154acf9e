//! The decision itself: calls in their order, each all or nothing over all limits.

use super::ask::Ask;
use super::level::Level;
use super::standing::{Checked, Outcome};

/// Decides `asks` one after another on `levels`, taking what is granted. A refused call takes nothing, so it does not
/// stand in the way of a smaller one behind it.
///
/// A store calls it on what is kept, or on what was kept before a script of its own decided the same.
pub fn evaluate(levels: &mut [Level], asks: &[Ask]) -> Vec<Checked> {
    asks.iter().map(|ask| one(levels, *ask)).collect()
}

/// Decides one call.
pub(super) fn one(levels: &mut [Level], ask: Ask) -> Checked {
    let outcome = decide(levels, ask);
    // Who was granted waits for nothing.
    let waits_for = match outcome {
        Outcome::Allowed { .. } => 0,
        Outcome::Denied { .. } | Outcome::Never { .. } => ask.least(),
    };
    if let Outcome::Allowed { granted } = outcome {
        levels.iter_mut().for_each(|level| level.take(granted));
    }
    Checked { outcome, standings: levels.iter().map(|level| level.standing(waits_for)).collect() }
}

/// What would be decided, without taking.
pub(super) fn decide(levels: &[Level], ask: Ask) -> Outcome {
    if let Some(by) = levels.iter().position(|level| level.never_fits(ask)) {
        return Outcome::Never { by };
    }
    let available = levels.iter().map(Level::available).min().unwrap_or(u64::MAX);
    if available >= ask.least() {
        return Outcome::Allowed { granted: if ask.partial { available.min(ask.cost) } else { ask.cost } };
    }
    let refusing = levels.iter().enumerate().filter(|(_, level)| level.available() < ask.least());
    let longest = refusing.max_by_key(|(_, level)| level.standing(ask.least()).retry_after);
    Outcome::Denied { by: longest.map_or(0, |(by, _)| by) }
}

/// What would be decided, and how each limit stands for such a call.
pub(super) fn look(levels: &[Level], ask: Ask) -> Checked {
    let standings = levels.iter().map(|level| level.standing(ask.least())).collect();
    Checked { outcome: decide(levels, ask), standings }
}
