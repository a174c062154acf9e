//! Which servers said of a lock that somebody else has it, as far as this process was told last.
//!
//! Who waits asks these first. To ask them all would take the servers that the holder does not have, again and again: giving
//! them back wakes all who wait, and the holder would not get them either.

use std::collections::HashMap;

use lockkeeper_core::Keys;
use parking_lot::Mutex;

use super::ledger::Nodes;

/// So many locks are remembered; beyond them, all are forgotten, which costs each a round.
const MAX_VIEWS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Views {
    inside: Mutex<HashMap<Keys, Nodes>>,
}

impl Views {
    /// One other holder has these, and a majority with them: as they say, or as those may say that do not answer.
    pub(super) fn is_held_at(&self, keys: &Keys, nodes: Nodes) {
        let mut inside = self.inside.lock();
        if inside.len() >= MAX_VIEWS && !inside.contains_key(keys) {
            inside.clear();
        }
        inside.insert(keys.clone(), nodes);
    }

    /// No longer, or not as far as is known.
    pub(super) fn forget(&self, keys: &Keys) {
        self.inside.lock().remove(keys);
    }

    pub(super) fn held_at(&self, keys: &Keys) -> Option<Nodes> {
        self.inside.lock().get(keys).copied()
    }
}
