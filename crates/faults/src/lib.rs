//! Real Redis and PostgreSQL processes and a fault proxy, under control: for tests, laboratories and drills.

pub mod cluster;
pub mod postgres;
pub mod proxy;
pub mod replicated;
pub mod sentinel;
pub mod server;

pub use cluster::{ClusterServers, SlotMove};
pub use postgres::{PostgresServer, postgres_available};
pub use proxy::{DropReply, FaultProxy, Stats};
pub use replicated::{Replica, Replicated};
pub use sentinel::{SentinelGroup, SentinelGroupBuilder};
pub use server::{
    FakeClock, RedisServer, Reply, ServerBuilder, ServerError, ServerKind, available, faketime_available,
    find_binary, skip,
};
