//! The scripts: one Lua file per decision, sent by hash, and by source where the server does not know the hash.

use std::sync::LazyLock;

/// A script and its hash.
#[derive(Debug)]
pub struct Script {
    /// The decision's name, and the file's.
    pub name: &'static str,
    /// The Lua source.
    pub source: &'static str,
    /// It changes nothing.
    pub read_only: bool,
    hash: LazyLock<String, fn() -> String>,
}

impl Script {
    /// The SHA-1 of the source in hexadecimal.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

macro_rules! scripts {
    ($($constant:ident = $name:literal, read_only: $read_only:literal;)*) => {
        $(pub(crate) static $constant: Script = Script {
            name: $name,
            source: include_str!(concat!("lua/lock/", $name, ".lua")),
            read_only: $read_only,
            hash: LazyLock::new(|| redis::Script::new(include_str!(concat!("lua/lock/", $name, ".lua"))).get_hash().to_owned()),
        };)*

        /// All of them.
        pub static SCRIPTS: &[&Script] = &[$(&$constant),*];
    };
}

scripts! {
    ACQUIRE = "acquire", read_only: false;
    WATCH = "watch", read_only: false;
    LEAVE = "leave", read_only: false;
    RENEW = "renew", read_only: false;
    RELEASE = "release", read_only: false;
    SWAP = "swap", read_only: false;
    FORCE_RELEASE = "force_release", read_only: false;
    INSPECT = "inspect", read_only: true;
    ACQUIRE_PERMIT = "acquire_permit", read_only: false;
    RENEW_PERMIT = "renew_permit", read_only: false;
    RELEASE_PERMIT = "release_permit", read_only: false;
    INSPECT_PERMITS = "inspect_permits", read_only: true;
}
