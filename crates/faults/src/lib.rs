//! Real Redis processes and a fault proxy, under control: for tests, laboratories and drills.

pub mod proxy;
pub mod server;

pub use proxy::{DropReply, FaultProxy, Stats};
pub use server::{
    FakeClock, RedisServer, Reply, ServerBuilder, ServerError, ServerKind, available, faketime_available,
    find_binary, skip,
};
