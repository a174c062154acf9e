//! What an ACL user needs for each feature: keys, channels and commands.
//!
//! ```
//! use lockkeeper_redis::access::{Feature, Prefixes, Rule};
//!
//! let rule = Rule::of(&[Feature::Locks], &Prefixes::default(), (7, 0));
//! assert_eq!(
//!     rule.to_string(),
//!     "resetkeys resetchannels -@all ~lock:* +eval +time +get +set +del +pttl +pexpire +evalsha",
//! );
//! ```

mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use lockkeeper_core::Error;

use self::table::{ROWS, Row};
use crate::layout::QUORUM_MARKER;
use crate::scan::pattern;
use crate::script::Script;

/// Something that a user may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Feature {
    /// Taking, renewing, swapping and releasing locks; releasing those of others.
    Locks,
    /// Waiting for a lock, and being told of its release.
    Waiting,
    /// Seeing who waits, and taking turns with other keepers.
    Waiters,
    /// Looking at locks.
    Inspecting,
    /// Listing locks.
    Listing,
    /// Finding out what the server is.
    Probing,
    /// Concurrency limits.
    Permits,
    /// Limits by token bucket and by windows.
    Limits,
    /// Limits by sliding log.
    SlidingLogs,
    /// Operations that run once.
    Once,
    /// Waiting for replicas, or for the disk.
    Durability,
    /// Following a primary: what the primary and its replicas are asked.
    Sentinel,
    /// Following a primary: what the Sentinels are asked, which have users of their own.
    Sentinels,
    /// A cluster.
    Cluster,
    /// A majority of independent servers.
    Quorum,
    /// Plain locks, where scripts are forbidden.
    Plain,
}

/// Later than any version: Valkey has such a command and Redis has not, or the other way round.
pub const OF_ONE_PRODUCT: (u32, u32) = (u32::MAX, u32::MAX);

/// A command that a feature sends, by itself or in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// As in an ACL rule, without the plus: `client|tracking`.
    pub name: &'static str,
    /// What becomes of the feature without it. `None`: it does not work.
    pub without: Option<&'static str>,
}

impl Command {
    /// The Redis version, as (major, minor), from which on there is such a command. An older server refuses a rule that
    /// names it. [`OF_ONE_PRODUCT`]: the version does not tell, so it is in no rule.
    pub fn since(self) -> (u32, u32) {
        match self.name {
            "delifeq" | "delex" => OF_ONE_PRODUCT,
            "eval_ro" | "evalsha_ro" => (7, 0),
            "waitaof" => (7, 2),
            _ => (6, 2),
        }
    }
}

/// Whose keys a feature touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeysOf {
    /// Those under the prefix of locks, side keys and concurrency limits included.
    Locks,
    /// Those under the prefix of limits.
    Limits,
    /// Those under the prefix of operations that run once.
    Once,
    /// The marker of a server of a majority, one key without a prefix.
    Marker,
}

/// What keys begin with on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// Locks and concurrency limits.
    pub locks: Vec<u8>,
    /// Limits.
    pub limits: Vec<u8>,
    /// Operations that run once.
    pub once: Vec<u8>,
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { locks: b"lock:".into(), limits: b"limit:".into(), once: b"once:".into() }
    }
}

impl Prefixes {
    /// The prefix of these keys; of the marker, the whole key.
    pub fn of(&self, keys: KeysOf) -> &[u8] {
        match keys {
            KeysOf::Locks => &self.locks,
            KeysOf::Limits => &self.limits,
            KeysOf::Once => &self.once,
            KeysOf::Marker => QUORUM_MARKER.as_bytes(),
        }
    }

    /// The key pattern of an ACL rule, without its `~`, that matches these keys and no others.
    pub fn pattern(&self, keys: KeysOf) -> String {
        match keys {
            KeysOf::Marker => QUORUM_MARKER.to_owned(),
            _ => String::from_utf8_lossy(&pattern(self.of(keys))).into_owned(),
        }
    }
}

/// What a user needs, in the words of `ACL SETUSER`, beginning from nothing. Shown, they stand in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `~lock:*`, `&channel`, `+get`, and so on.
    words: Vec<String>,
}

impl Rule {
    /// For all of `features` on a server that is compatible with this Redis version.
    pub fn of(features: &[Feature], prefixes: &Prefixes, version: (u32, u32)) -> Self {
        let mut words: Vec<String> = ["resetkeys", "resetchannels", "-@all"].map(str::to_owned).into();
        let mut add = |word: String| {
            if !words.contains(&word) {
                words.push(word);
            }
        };
        for feature in features {
            feature.keys().iter().for_each(|&keys| add(format!("~{}", prefixes.pattern(keys))));
        }
        for feature in features {
            feature.channels().iter().for_each(|channel| add(format!("&{channel}")));
        }
        for command in features.iter().flat_map(|&feature| feature.commands()) {
            if command.since() <= version {
                add(format!("+{}", command.name));
            }
        }
        Self { words }
    }

    /// Its words, as arguments of `ACL SETUSER`.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

impl Feature {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.feature)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What it is for, in words that go on after "for".
    pub fn purpose(self) -> &'static str {
        self.row().purpose
    }

    /// Whose keys it touches.
    pub fn keys(self) -> &'static [KeysOf] {
        self.row().keys
    }

    /// The channels that it listens to. Being told of changed keys needs none.
    pub fn channels(self) -> &'static [&'static str] {
        self.row().channels
    }

    /// The commands that it sends, by themselves or in scripts; first those that it cannot do without.
    pub fn commands(self) -> impl Iterator<Item = Command> {
        let must = self.row().must.iter().map(|&name| Command { name, without: None });
        let may = self.row().may.iter().map(|&(name, without)| Command { name, without: Some(without) });
        must.chain(may)
    }

    /// The scripts that it runs.
    pub fn scripts(self) -> &'static [&'static Script] {
        self.row().scripts
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Feature {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::all().find(|feature| feature.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::name).collect();
            Error::bad_argument("feature", format!("unknown; use one of {}", names.join(", ")))
        })
    }
}
