//! The scripts: one Lua file per decision, in a folder for each kind, sent by hash, and by source where the server does not know the hash.

use std::sync::OnceLock;

/// A script and its hash.
#[derive(Debug)]
pub struct Script {
    /// The decision's name, and the file's.
    pub name: &'static str,
    /// The Lua source.
    pub source: &'static str,
    /// It changes nothing.
    pub read_only: bool,
    hash: OnceLock<String>,
}

impl Script {
    /// A script for a [`Port`](crate::port::Port), named as its decision is. `read_only`: it changes nothing, and a server that is paused for
    /// writes may run it.
    pub const fn new(name: &'static str, source: &'static str, read_only: bool) -> Self {
        Self { name, source, read_only, hash: OnceLock::new() }
    }

    /// The SHA-1 of the source in hexadecimal.
    pub fn hash(&self) -> &str {
        self.hash.get_or_init(|| redis::Script::new(self.source).get_hash().to_owned())
    }
}

macro_rules! scripts {
    ($($constant:ident = $folder:literal / $name:literal, read_only: $read_only:literal;)*) => {
        $(pub(crate) static $constant: Script =
            Script::new($name, include_str!(concat!("lua/", $folder, "/", $name, ".lua")), $read_only);)*

        /// All of them.
        pub static SCRIPTS: &[&Script] = &[$(&$constant),*];
    };
}

scripts! {
    ACQUIRE = "lock" / "acquire", read_only: false;
    WATCH = "lock" / "watch", read_only: false;
    LEAVE = "lock" / "leave", read_only: false;
    RENEW = "lock" / "renew", read_only: false;
    RELEASE = "lock" / "release", read_only: false;
    SWAP = "lock" / "swap", read_only: false;
    FORCE_RELEASE = "lock" / "force_release", read_only: false;
    RAISE_FENCE = "lock" / "raise_fence", read_only: false;
    INSPECT = "lock" / "inspect", read_only: true;
    ACQUIRE_PERMIT = "lock" / "acquire_permit", read_only: false;
    RENEW_PERMIT = "lock" / "renew_permit", read_only: false;
    RELEASE_PERMIT = "lock" / "release_permit", read_only: false;
    INSPECT_PERMITS = "lock" / "inspect_permits", read_only: true;
    CHECK = "limit" / "check", read_only: false;
    PEEK = "limit" / "peek", read_only: true;
    REFUND = "limit" / "refund", read_only: false;
    RESET = "limit" / "reset", read_only: false;
    BEGIN = "idempotency" / "begin", read_only: false;
    KEEP_ALIVE = "idempotency" / "keep_alive", read_only: false;
    COMPLETE = "idempotency" / "complete", read_only: false;
    ABANDON = "idempotency" / "abandon", read_only: false;
    RESOLVE = "idempotency" / "resolve", read_only: false;
    INSPECT_ONCE = "idempotency" / "inspect_once", read_only: true;
}
