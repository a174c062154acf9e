//! The ports: for each decision its script, its keys and arguments, and how its reply is read.

mod idempotency;
mod limit;
mod lock;
mod permits;

#[cfg(test)]
mod tests;

use lockkeeper_core::{Decision, Keys, Timestamp};
use redis::Cmd;

use crate::layout::{fence_key, permit_key, presence_key};
use crate::reply::{Fields, Malformed};
use crate::script::Script;

/// A decision that has a script.
pub(crate) trait Port: Decision {
    /// Its script.
    const SCRIPT: &'static Script;
    /// Which of the keys of a name it touches, in order.
    const KEYS: &'static [Part] = &[Part::Main, Part::Fence];

    /// Adds the arguments, in the order of the script's header.
    fn arguments(&self, command: &mut Cmd);

    /// Reads the fields after time and status; the script ran `at` that time.
    fn read(&self, at: Timestamp, status: &[u8], fields: Fields) -> Result<Self::Reply, Malformed>;

    /// Adds the number of keys and the keys.
    fn keys(at: &Keys, command: &mut Cmd) {
        let keys = at.as_slice();
        command.arg(keys.len() * Self::KEYS.len());
        for key in keys {
            for part in Self::KEYS {
                match part {
                    Part::Main => command.arg(key.as_bytes()),
                    Part::Fence => command.arg(fence_key(key)),
                    Part::Presence => command.arg(presence_key(key)),
                    Part::Permit => command.arg(permit_key(key)),
                };
            }
        }
    }
}

/// One of the keys of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Fence,
    Presence,
    Permit,
}

/// 2^53: what a script's numbers count to exactly.
const EXACT: u64 = 1 << 53;

fn time(at: Timestamp) -> u64 {
    at.as_micros().min(EXACT)
}

const UNKNOWN_STATUS: Malformed = Malformed("an unknown status");
