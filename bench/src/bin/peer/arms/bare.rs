//! The bare client with the textbook's lock: `SET … NX PX`, a script that compares and deletes, and a poll.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use redis::aio::MultiplexedConnection;

use crate::arm::{Arm, LEASE_MS, Lock};

const POLL: Duration = Duration::from_millis(10);
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

#[derive(Clone)]
pub(crate) struct Bare {
    connection: MultiplexedConnection,
    release: Arc<str>,
}

pub(crate) struct BareLock {
    bare: Bare,
    key: String,
}

impl Bare {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        let mut load = redis::cmd("SCRIPT");
        let hash: String = load.arg("LOAD").arg(RELEASE).query_async(&mut connection).await?;
        Ok(Self { connection, release: hash.into() })
    }
}

impl Arm for Bare {
    type Lock = BareLock;

    fn lock(&self, key: &str) -> Result<BareLock> {
        Ok(BareLock { bare: self.clone(), key: key.to_owned() })
    }

    async fn close(&self) {}
}

impl Lock for BareLock {
    type Held = String;

    async fn acquire(&mut self) -> Result<String> {
        let token = token();
        loop {
            let mut set = redis::cmd("SET");
            set.arg(&self.key).arg(&token).arg("NX").arg("PX").arg(LEASE_MS);
            if set.query_async::<Option<String>>(&mut self.bare.connection).await?.is_some() {
                return Ok(token);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn release(&mut self, token: String) -> bool {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&*self.bare.release).arg(1).arg(&self.key).arg(token);
        matches!(call.query_async::<i64>(&mut self.bare.connection).await, Ok(1))
    }

    fn fence(_held: &String) -> Option<u64> {
        None
    }
}

/// Different in each process and each time; nobody has to guess it here.
fn token() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:016x}{:016x}", std::process::id(), COUNT.fetch_add(1, Relaxed))
}
