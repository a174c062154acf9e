//! The seam for decisions of other people: a [`Decision`] of yours, its Lua script, and how the two talk.
//!
//! A store runs every decision that has a [`Port`]: [`RedisStore`](crate::RedisStore) stamps its "not after", sends the script by its hash,
//! repeats it where that is safe, and sorts what comes back into *applied*, *not applied* and *outcome unknown*.
//!
//! # Contract of a script
//! Its reply is an array that begins with the server's time in microseconds and a status. Three statuses are read for you:
//! `late` ("not after" has passed; nothing was changed), and `wrongtype` with an index and 0 or 1 (that key, or a side key
//! of it, holds something else; nothing was changed). Whatever else follows is for [`Port::read`].
//!
//! ```
//! use lockkeeper_core::{Decision, State, Timestamp, WrongType};
//! use lockkeeper_redis::port::{Cmd, Fields, Malformed, Part, Port, Script};
//!
//! /// A tally that goes after a day.
//! #[derive(Clone, Default)]
//! struct Tally(u64);
//! impl State for Tally {
//!     const NOUN: &'static str = "a tally";
//!     fn expire(&mut self, _now: Timestamp) {}
//!     fn is_empty(&self) -> bool {
//!         self.0 == 0
//!     }
//! }
//!
//! #[derive(Clone)]
//! struct Count {
//!     not_after: Timestamp,
//! }
//! impl Decision for Count {
//!     type State = Tally;
//!     type Reply = u64;
//!     const NAME: &'static str = "count";
//!     const REPEATABLE: bool = false; // counting twice is not counting once
//!     fn decide(&self, cells: &mut [Tally], _now: Timestamp) -> Result<u64, WrongType> {
//!         cells[0].0 += 1;
//!         Ok(cells[0].0)
//!     }
//!     fn not_after(&self) -> Option<Timestamp> {
//!         Some(self.not_after)
//!     }
//!     fn set_not_after(&mut self, not_after: Timestamp) {
//!         self.not_after = not_after;
//!     }
//! }
//!
//! static COUNT: Script = Script::new("count", r"
//! local time = redis.call('TIME')
//! local now = time[1] * 1000000 + time[2]
//! if now > tonumber(ARGV[1]) then return {now, 'late'} end
//! local tally = redis.call('INCR', KEYS[1])
//! redis.call('EXPIRE', KEYS[1], 86400)
//! return {now, 'counted', tally}", false);
//!
//! impl Port for Count {
//!     const SCRIPT: &'static Script = &COUNT;
//!     const KEYS: &'static [Part] = &[Part::side("tally")]; // `<prefix>~tally:…`
//!     fn arguments(&self, command: &mut Cmd) {
//!         command.arg(lockkeeper_redis::port::time(self.not_after));
//!     }
//!     fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<u64, Malformed> {
//!         match status {
//!             b"counted" => fields.unsigned(),
//!             _ => Err(Malformed("an unknown status")),
//!         }
//!     }
//! }
//! ```

use lockkeeper_core::{Decision, Key, Keys, Timestamp};
pub use redis::{Cmd, Value};

use crate::layout::{fence_key, permit_key, presence_key, side_key_of};
use crate::native::Native;
pub use crate::reply::{Fields, Malformed};
pub use crate::script::Script;

/// A decision that has a script.
pub trait Port: Decision {
    /// Its script.
    const SCRIPT: &'static Script;
    /// Which of the keys of a name it touches, in order. For several names, all of the first name come first.
    const KEYS: &'static [Part] = &[Part::Main, Part::Fence];

    /// Adds the arguments, in the order of the script's header.
    fn arguments(&self, command: &mut Cmd);

    /// Reads the fields after time and status; the script ran `at` that time.
    ///
    /// # Errors
    /// No script of ours answers this.
    fn read(&self, at: Timestamp, status: &[u8], fields: Fields) -> Result<Self::Reply, Malformed>;

    /// The same by plain commands, for servers that forbid scripts. Only for what this crate makes.
    #[doc(hidden)]
    fn native(&self) -> Option<Native<'_, Self::Reply>> {
        None
    }

    /// Adds the number of keys and the keys. Only for decisions whose keys [`KEYS`](Self::KEYS) cannot list: all of them
    /// have to lie in one cluster slot.
    fn keys(at: &Keys, command: &mut Cmd) {
        let keys = at.as_slice();
        command.arg(keys.len() * Self::KEYS.len());
        for key in keys {
            for part in Self::KEYS {
                part.add(key, command);
            }
        }
    }
}

/// One of the keys of a name. All of them lie in the cluster slot of the main key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The main key.
    Main,
    /// The last fence of a lock.
    Fence,
    /// Who waits for a lock.
    Presence,
    /// The permits of a concurrency limit.
    Permit,
    /// A side key of your own. See [`side`](Self::side).
    Side(SideWord),
}

/// What a side key of your own is named by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideWord(&'static str);

impl SideWord {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// What this project's own side keys are named by.
const RESERVED: [&str; 3] = ["fence", "wait", "permit"];

impl Part {
    /// A side key of your own, by a word of lower-case letters: `<prefix>~word:…`.
    ///
    /// # Panics
    /// The word is empty, has other characters, or is one of `fence`, `wait` and `permit`. In a constant, which is what
    /// [`Port::KEYS`] is, it does not compile then.
    ///
    /// ```compile_fail
    /// use lockkeeper_redis::port::Part;
    /// const TAKEN: Part = Part::side("fence");
    /// # let _ = TAKEN;
    /// ```
    pub const fn side(word: &'static str) -> Self {
        let bytes = word.as_bytes();
        assert!(!bytes.is_empty(), "the word of a side key is empty");
        let mut at = 0;
        while at < bytes.len() {
            assert!(bytes[at].is_ascii_lowercase(), "the word of a side key has lower-case letters only");
            at += 1;
        }
        let mut at = 0;
        while at < RESERVED.len() {
            assert!(!is_same(bytes, RESERVED[at].as_bytes()), "the word of a side key is taken");
            at += 1;
        }
        Self::Side(SideWord(word))
    }

    fn add(self, key: &Key, command: &mut Cmd) {
        match self {
            Self::Main => command.arg(key.as_bytes()),
            Self::Fence => command.arg(fence_key(key)),
            Self::Presence => command.arg(presence_key(key)),
            Self::Permit => command.arg(permit_key(key)),
            Self::Side(word) => command.arg(side_key_of(key, word.0)),
        };
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len()
}

/// 2^53: what a script's numbers count to exactly.
pub const EXACT: u64 = 1 << 53;

/// A moment as an argument, in microseconds, never more than a script can count to.
pub fn time(at: Timestamp) -> u64 {
    at.as_micros().min(EXACT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MARKS;

    #[test]
    fn side_keys_of_others_are_named_by_words_that_are_not_ours() {
        let taken = MARKS.map(|mark| std::str::from_utf8(mark).unwrap().trim_matches(['~', ':']));
        assert_eq!(taken, RESERVED);
        for bad in ["", "Buyers", "a:b", "a1", "ä", "fence", "wait", "permit"] {
            assert!(std::panic::catch_unwind(|| Part::side(bad)).is_err(), "{bad}");
        }
        for good in ["buyers", "fences", "wai"] {
            assert!(matches!(Part::side(good), Part::Side(word) if word.as_str() == good));
        }
    }
}
