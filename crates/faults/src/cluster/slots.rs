//! Moving a slot, in steps, so that a test can stop half-way.

use super::{ClusterServers, ask};
use crate::server::{RedisServer, Reply, ServerError};

/// How many keys are carried at once.
const BATCH: usize = 100;
const MIGRATE_TIMEOUT_MS: &str = "5000";

/// A slot on its way from one node to another. Dropped before [`finish`](Self::finish), it stays half-way.
#[derive(Debug)]
pub struct SlotMove<'a> {
    cluster: &'a ClusterServers,
    slot: String,
    from: usize,
    to: usize,
}

impl<'a> SlotMove<'a> {
    pub(super) fn begin(cluster: &'a ClusterServers, slot: u16, to: usize) -> Result<Self, ServerError> {
        let from = cluster.owner_of(slot)?;
        let slot = slot.to_string();
        cluster.ask(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &cluster.ids[from]])?;
        cluster.ask(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &cluster.ids[to]])?;
        Ok(Self { cluster, slot, from, to })
    }

    /// Carries this key over, if it is there.
    ///
    /// # Errors
    /// A node refuses.
    pub fn carry(&self, key: &[u8]) -> Result<(), ServerError> {
        self.migrate(&[key])
    }

    /// Carries what is left, and makes the new node the owner, for all who keep slots.
    ///
    /// # Errors
    /// A node refuses.
    pub fn finish(self) -> Result<(), ServerError> {
        // What is written meanwhile goes to the new place, so that this ends.
        loop {
            let words = ["CLUSTER", "GETKEYSINSLOT", &self.slot, &BATCH.to_string()];
            let keys = self.cluster.ask(self.from, &words)?;
            let keys: Vec<&[u8]> =
                keys.as_array().unwrap_or_default().iter().filter_map(Reply::as_bytes).collect();
            if keys.is_empty() {
                break;
            }
            self.migrate(&keys)?;
        }
        let others = (0..self.cluster.nodes.len()).filter(|number| ![self.to, self.from].contains(number));
        for number in [self.to, self.from].into_iter().chain(others) {
            let owner = ["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.cluster.ids[self.to]];
            match self.cluster.ask(number, &owner) {
                // Replicas learn it from their primary; a node that is down, later.
                Err(_) if number != self.to && number != self.from => {}
                result => drop(result?),
            }
        }
        Ok(())
    }

    fn migrate(&self, keys: &[&[u8]]) -> Result<(), ServerError> {
        let to: &RedisServer = &self.cluster.nodes[self.to];
        let port = to.port().to_string();
        let head: [&[u8]; 7] =
            [b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", MIGRATE_TIMEOUT_MS.as_bytes(), b"KEYS"];
        let words: Vec<&[u8]> = head.into_iter().chain(keys.iter().copied()).collect();
        match self.cluster.nodes[self.from].command_bytes(&words)? {
            Reply::Error(text) => Err(ServerError::Protocol(text)),
            _ => Ok(()),
        }
    }

    /// Lets the slot stay where it was. Keys that were carried over are lost to it.
    ///
    /// # Errors
    /// A node refuses.
    pub fn abandon(self) -> Result<(), ServerError> {
        for number in [self.from, self.to] {
            ask(&self.cluster.nodes[number], &["CLUSTER", "SETSLOT", &self.slot, "STABLE"])?;
        }
        Ok(())
    }
}
