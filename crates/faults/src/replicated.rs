//! A primary with replicas, each of which replicates through a fault proxy of its own.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::proxy::FaultProxy;
use crate::server::{RedisServer, ServerBuilder, ServerError};

/// The longest wait for the replicas' first synchronisation.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked at.
const POLL: Duration = Duration::from_millis(10);

/// A primary and its replicas, ended when this is dropped.
///
/// A replica is cut off by its proxy: hold the proxy, and what the primary acknowledges from then on is lost when that
/// replica is promoted. (Cutting the connection does not do it: a replica reconnects and catches up at once.)
#[derive(Debug)]
pub struct Replicated {
    primary: RedisServer,
    replicas: Vec<Replica>,
}

/// One replica.
#[derive(Debug)]
pub struct Replica {
    /// The server.
    pub server: RedisServer,
    /// What it replicates through.
    pub line: FaultProxy,
}

impl Replicated {
    /// Starts `replicas` replicas of a primary, all made by `builder`, and waits until each is in sync and has said so.
    /// (A primary sends a new replica nothing until its first word, which takes up to a second.)
    ///
    /// # Errors
    /// A server does not start, or a replica is not in sync within 30 seconds.
    pub fn start(builder: &ServerBuilder, replicas: usize) -> Result<Self, ServerError> {
        let builder =
            builder.clone().config("repl-diskless-sync", "yes").config("repl-diskless-sync-delay", "0");
        let primary = builder.clone().start()?;
        let replicas: Result<Vec<Replica>, ServerError> =
            (0..replicas).map(|_| Replica::of(&primary, builder.clone())).collect();
        let all = Self { primary, replicas: replicas? };
        all.wait_in_sync()?;
        all.wait_acknowledged()?;
        Ok(all)
    }

    /// The server that was started as primary.
    pub fn primary(&self) -> &RedisServer {
        &self.primary
    }

    /// The servers that were started as replicas.
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// Waits until every replica has all that the primary has written so far.
    ///
    /// # Errors
    /// Not within 30 seconds.
    pub fn wait_in_sync(&self) -> Result<(), ServerError> {
        wait_for(|| self.is_in_sync())
    }

    /// Sends a message to nobody, and waits until every replica has acknowledged it.
    fn wait_acknowledged(&self) -> Result<(), ServerError> {
        self.primary.command(&["PUBLISH", "lockkeeper:nobody", ""])?;
        let written = offset(&self.primary, "master_repl_offset")?;
        wait_for(|| {
            let info = self.primary.command(&["INFO", "replication"])?;
            let acknowledged = info.as_str().unwrap_or_default().lines().filter_map(acknowledged);
            Ok(acknowledged.filter(|offset| *offset >= written).count() >= self.replicas.len())
        })
    }

    fn is_in_sync(&self) -> Result<bool, ServerError> {
        let written = offset(&self.primary, "master_repl_offset")?;
        for Replica { server, .. } in &self.replicas {
            let is_linked = field(server, "master_link_status")?.as_deref() == Some("up");
            if !is_linked || offset(server, "slave_repl_offset")? < written {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Replica {
    fn of(primary: &RedisServer, builder: ServerBuilder) -> Result<Self, ServerError> {
        let line = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], primary.port())))
            .map_err(ServerError::io("starting a proxy"))?;
        let server = builder.config("replicaof", format!("127.0.0.1 {}", line.addr().port())).start()?;
        Ok(Self { server, line })
    }
}

fn wait_for(mut is_so: impl FnMut() -> Result<bool, ServerError>) -> Result<(), ServerError> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() >= deadline {
            return Err(ServerError::Unresponsive { what: "replicate" });
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// From a line such as `slave0:ip=127.0.0.1,port=6380,state=online,offset=14,lag=0`.
fn acknowledged(line: &str) -> Option<u64> {
    let (_, fields) = line.strip_prefix("slave")?.split_once(':')?;
    fields.split(',').find_map(|field| field.strip_prefix("offset="))?.parse().ok()
}

fn offset(server: &RedisServer, name: &str) -> Result<u64, ServerError> {
    Ok(field(server, name)?.and_then(|value| value.parse().ok()).unwrap_or(0))
}

fn field(server: &RedisServer, name: &str) -> Result<Option<String>, ServerError> {
    let info = server.command(&["INFO", "replication"])?;
    let found = info.as_str().and_then(|text| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim).map(str::to_owned))
    });
    Ok(found)
}
