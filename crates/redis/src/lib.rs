//! Lockkeeper's decisions as scripts on Redis (6.2 and later) and Valkey.
//!
//! Each decision of `lockkeeper-core` has one Lua file here, its *port*; a differential test holds the two together.
//! Use the `lockkeeper` crate to lock; use this one to build on the store itself.

pub mod access;
mod attempt;
mod clock;
mod cluster;
mod config;
mod connect;
mod error;
mod lasting;
mod layout;
mod link;
mod native;
mod node;
#[doc(hidden)]
pub mod own_thread;
pub mod port;
mod ports;
mod probe;
mod quorum;
pub mod redis1;
mod reply;
mod scan;
mod script;
mod sentinel;
mod store;
mod tls;
mod url;
mod wake;

pub use config::{
    CredentialFuture, CredentialProvider, Credentials, DEFAULT_CONNECT_TIMEOUT, DEFAULT_RESPONSE_TIMEOUT,
    MAX_RESPONSE_TIMEOUT, RedisConfig,
};
pub use layout::{QUORUM_MARKER, fence_key, permit_key, presence_key, side_key_of, slot_of};
pub use node::Lane;
pub use probe::ServerInfo;
pub use quorum::{NodeReport, NodeStanding, QuorumConfig, QuorumCursor, QuorumStore, QuorumWatcher};
pub use scan::Cursor;
pub use script::{SCRIPTS, Script};
pub use sentinel::SentinelView;
pub use store::{RedisStore, Terms};
pub use wake::Watcher;
