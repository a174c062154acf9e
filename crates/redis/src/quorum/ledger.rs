//! What this process may have on which server: one record per token, from before it is sent until it is released.

use std::collections::HashMap;

use lockkeeper_core::lock::OwnerToken;
use lockkeeper_core::{Timestamp, Uptime};
use parking_lot::Mutex;
use smallvec::SmallVec;

/// A set of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nodes(u16);

impl Nodes {
    pub(super) fn all(count: usize) -> Self {
        (0..count).fold(Self::default(), Self::with)
    }
    pub(super) fn with(self, node: usize) -> Self {
        Self(self.0 | (1 << node))
    }
    pub(super) fn without(self, node: usize) -> Self {
        Self(self.0 & !(1 << node))
    }
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    pub(super) fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub(super) fn has(self, node: usize) -> bool {
        self.0 & (1 << node) != 0
    }
    pub(super) fn count(self) -> usize {
        self.0.count_ones() as usize
    }
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..16).filter(move |node| self.has(*node))
    }
}

/// Until when, by that server's clock, a request without an answer may take effect there.
pub(super) type Doubts = SmallVec<[(usize, Timestamp); 2]>;

/// One token.
#[derive(Clone, Debug)]
pub(super) struct Record {
    id: u64,
    /// Servers that may keep it.
    pub(super) holds: Nodes,
    pub(super) doubts: Doubts,
    /// The last number that is given out with it; zero while that is not known.
    pub(super) last_fence: u64,
    /// Everything of it has ended by then.
    ends: Uptime,
}

impl Record {
    /// Until when a request may take effect at `node`.
    pub(super) fn doubt_at(&self, node: usize) -> Option<Timestamp> {
        self.doubts.iter().filter(|(at, _)| *at == node).map(|(_, until)| *until).max()
    }
}

/// So many records, and those that have ended are looked for.
const SWEEP_AT: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    records: HashMap<OwnerToken, Record>,
    /// Tokens that are being given back, and at how many servers.
    leaving: HashMap<OwnerToken, usize>,
    next_id: u64,
    sweep_at: usize,
}

impl Ledger {
    /// It is about to be sent to `nodes`. An earlier record of the same token is added to.
    pub(super) fn begin(&self, token: &OwnerToken, nodes: Nodes, now: Uptime, ends: Uptime) -> u64 {
        let inside = &mut *self.inside.lock();
        if inside.records.len() >= inside.sweep_at.max(SWEEP_AT) {
            inside.records.retain(|_, record| record.ends > now);
            inside.sweep_at = inside.records.len() * 2;
        }
        if let Some(record) = inside.records.get_mut(token) {
            record.holds = Nodes(record.holds.0 | nodes.0);
            record.ends = record.ends.max(ends);
            return record.id;
        }
        inside.next_id += 1;
        let id = inside.next_id;
        let record = Record { id, holds: nodes, doubts: Doubts::new(), last_fence: 0, ends };
        inside.records.insert(token.clone(), record);
        id
    }

    /// Changes the record if it still stands: false if the token was released or given up meanwhile.
    pub(super) fn change(&self, token: &OwnerToken, id: u64, what: impl FnOnce(&mut Record)) -> bool {
        let mut inside = self.inside.lock();
        match inside.records.get_mut(token).filter(|record| record.id == id) {
            Some(record) => {
                what(record);
                true
            }
            None => false,
        }
    }

    /// The record, for a renewal that lasts until `ends`.
    pub(super) fn prolong(&self, token: &OwnerToken, ends: Uptime) -> Option<(u64, u64)> {
        let mut inside = self.inside.lock();
        let record = inside.records.get_mut(token)?;
        record.ends = record.ends.max(ends);
        Some((record.id, record.last_fence))
    }

    /// Ends the record: what comes late is given back from now on.
    pub(super) fn end(&self, token: &OwnerToken) -> Option<Record> {
        self.inside.lock().records.remove(token)
    }

    pub(super) fn leaves(&self, token: &OwnerToken) {
        *self.inside.lock().leaving.entry(token.clone()).or_default() += 1;
    }

    pub(super) fn left(&self, token: &OwnerToken) {
        let mut inside = self.inside.lock();
        if let Some(count) = inside.leaving.get_mut(token) {
            *count -= 1;
            if *count == 0 {
                inside.leaving.remove(token);
            }
        }
    }

    /// It is being given back somewhere, so it cannot be taken again.
    pub(super) fn is_leaving(&self, token: &OwnerToken) -> bool {
        let inside = self.inside.lock();
        !inside.leaving.is_empty() && inside.leaving.contains_key(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_ends_once_and_nothing_is_noted_in_another_one_of_the_same_token() {
        let (ledger, token) = (Ledger::default(), OwnerToken::given("t").unwrap());
        let (now, ends) = (Uptime::from_micros(1), Uptime::from_micros(9));
        let first = ledger.begin(&token, Nodes::all(3), now, ends);
        assert!(ledger.change(&token, first, |record| record.holds = record.holds.without(1)));
        let record = ledger.end(&token).unwrap();
        assert_eq!(record.holds.iter().collect::<Vec<_>>(), [0, 2]);
        assert!(ledger.end(&token).is_none());
        ledger.begin(&token, Nodes::all(3), now, ends);
        assert!(!ledger.change(&token, first, |_| ()));
    }

    #[test]
    fn records_that_were_never_released_go_after_their_end() {
        let ledger = Ledger::default();
        let token = |number: usize| OwnerToken::given(number.to_string()).unwrap();
        for number in 0..SWEEP_AT {
            ledger.begin(&token(number), Nodes::all(1), Uptime::from_micros(0), Uptime::from_micros(1));
        }
        ledger.begin(&token(SWEEP_AT), Nodes::all(1), Uptime::from_micros(2), Uptime::from_micros(3));
        assert_eq!(ledger.inside.lock().records.len(), 1);
    }
}
