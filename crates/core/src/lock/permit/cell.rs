//! What a store keeps for the permits of one name: owner tokens, each with the end of its lease.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::decision::{State, WrongType};
use crate::lock::lease::{Lease, MAX_LEASE};
use crate::lock::token::OwnerToken;
use crate::time::{Timestamp, micros_of};

/// A permit whose lease ends further ahead than this, by the server's clock, is a fault: nobody can ask for more
/// than [`MAX_LEASE`], so that clock was set back by a year or more, or somebody else wrote it. The next decision
/// removes it, and its holder learns of that from its next renewal.
///
/// A smaller step back lets leases that nobody renews end later by as much: too few are let in, never too many.
pub const MAX_PERMIT_AHEAD: Duration = MAX_LEASE.saturating_mul(2);

/// One name's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitCell {
    /// A sorted set of ours, possibly empty.
    Ours(Permits),
    /// A string, a list, …: not permits.
    WrongType,
}

/// Who holds, and until when: microseconds of the server's clock. A permit is held while `now < ends`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    ends: HashMap<OwnerToken, u64>,
    /// By end, then by token, as a sorted set keeps them.
    order: BTreeSet<(u64, OwnerToken)>,
}

impl Default for PermitCell {
    fn default() -> Self {
        Self::Ours(Permits::default())
    }
}

impl State for PermitCell {
    const NOUN: &'static str = "a set of permits";

    fn expire(&mut self, now: Timestamp) {
        if let Self::Ours(permits) = self {
            permits.expire(now);
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Ours(permits) if permits.held() == 0)
    }
}

impl Permits {
    /// How many are held.
    pub fn held(&self) -> usize {
        self.ends.len()
    }

    /// When the lease of `token` ends, if it holds a permit.
    pub fn ends(&self, token: &OwnerToken) -> Option<u64> {
        self.ends.get(token).copied()
    }

    /// Everybody, by the end of their lease.
    pub fn in_order(&self) -> impl Iterator<Item = (u64, &OwnerToken)> {
        self.order.iter().map(|(ends, token)| (*ends, token))
    }

    /// Writes an end, whatever was there.
    pub fn put(&mut self, token: &OwnerToken, ends: u64) {
        self.remove(token);
        self.ends.insert(token.clone(), ends);
        self.order.insert((ends, token.clone()));
    }

    /// True if it was held.
    pub fn remove(&mut self, token: &OwnerToken) -> bool {
        let Some(ends) = self.ends.remove(token) else { return false };
        self.order.remove(&(ends, token.clone()));
        true
    }

    /// Takes or lengthens: to `lease` from now; a later end stays (invariant 4).
    pub(super) fn lengthen(&mut self, token: &OwnerToken, lease: Lease, now: Timestamp) {
        let wanted = now.after(lease.as_duration()).as_micros();
        if self.ends(token).is_none_or(|ends| ends < wanted) {
            self.put(token, wanted);
        }
    }

    /// How long until the first lease ends.
    pub(super) fn until_first_end(&self, now: Timestamp) -> Duration {
        let first = self.order.first().map_or(0, |(ends, _)| *ends);
        Timestamp::from_micros(first).since(now)
    }

    fn expire(&mut self, now: Timestamp) {
        let most = now.as_micros().saturating_add(micros_of(MAX_PERMIT_AHEAD));
        while let Some((_, token)) = self.order.first().filter(|(ends, _)| *ends <= now.as_micros()).cloned()
        {
            self.remove(&token);
        }
        while let Some((_, token)) = self.order.last().filter(|(ends, _)| *ends > most).cloned() {
            self.remove(&token);
        }
    }
}

/// The permits of the one key that a decision is about.
///
/// # Errors
/// The key holds something else.
pub(super) fn only(cells: &mut [PermitCell]) -> Result<&mut Permits, WrongType> {
    match cells.first_mut() {
        Some(PermitCell::Ours(permits)) => Ok(permits),
        _ => Err(WrongType { index: 0, side: false }),
    }
}
