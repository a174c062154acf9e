//! Guards for real server processes: start, pause, kill and restart them, and set their wall clock.

mod available;
mod binary;
mod builder;
mod client;
mod clock;
mod control;
mod error;
mod guard;
mod launch;
mod libfaketime;
mod ready;
mod reply;
mod settings;
mod signal;
mod spawn;

pub use available::{available, faketime_available, skip};
pub use binary::{ServerKind, find_binary};
pub use builder::ServerBuilder;
pub(crate) use builder::free_port;
pub use clock::FakeClock;
pub use error::ServerError;
pub use guard::RedisServer;
pub(crate) use launch::{log_path, log_tail};
pub use reply::Reply;
pub(crate) use signal::{POLL, send, wait_ended};
pub(crate) use spawn::{spawn, tied_command};
