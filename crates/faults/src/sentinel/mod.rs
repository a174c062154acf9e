//! A primary, its replicas, and the Sentinels that watch them.

mod builder;
mod state;

use std::thread;
use std::time::{Duration, Instant};

use crate::server::{RedisServer, Reply, ServerError};

pub use self::builder::SentinelGroupBuilder;

/// The longest wait for anything that Sentinels agree upon.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked at.
const POLL: Duration = Duration::from_millis(20);
/// The name under which the primary is watched.
pub const SERVICE: &str = "main";

/// Servers of which one is the primary, and Sentinels that see to it; all ended when this is dropped.
///
/// To lose what a primary acknowledged: [`cut_replication`](Self::cut_replication), write, then
/// [`kill`](RedisServer::kill) the primary. Only kill or pause servers, do not restart the primary before its
/// failover is over: it would be the primary still.
#[derive(Debug)]
pub struct SentinelGroup {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
    password: Option<String>,
    sentinel_password: Option<String>,
}

impl SentinelGroup {
    /// Two replicas and three Sentinels, without passwords.
    pub fn builder() -> SentinelGroupBuilder {
        SentinelGroupBuilder::default()
    }

    /// The primary that was started first, then the replicas in order, whatever they are by now.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// `redis+sentinel://…`, with TLS `rediss+sentinel://…`, of all the Sentinels, with the passwords, if there are any.
    pub fn url(&self) -> String {
        let ports = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port()));
        let hosts = ports.collect::<Vec<_>>().join(",");
        let credentials = self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        let query = self.sentinel_password.as_ref().map(|password| format!("?sentinel_password={password}"));
        let is_tls = self.sentinels.iter().any(|sentinel| sentinel.url().starts_with("rediss"));
        let scheme = if is_tls { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{credentials}{hosts}/{SERVICE}{}", query.unwrap_or_default())
    }

    /// The index of the server that most of the Sentinels that answer say is the primary.
    pub fn primary(&self) -> Option<usize> {
        let named = |sentinel: &RedisServer| {
            let reply = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]).ok()?;
            let port = reply.as_array()?.get(1)?.as_int()?;
            self.servers.iter().position(|server| i64::from(server.port()) == port)
        };
        let votes: Vec<usize> = self.sentinels.iter().filter_map(named).collect();
        votes.iter().copied().max_by_key(|at| votes.iter().filter(|other| *other == at).count())
    }

    /// Has the Sentinels make another server the primary although nothing is wrong with this one, and waits until one of
    /// the others takes writes. Answers which.
    ///
    /// # Errors
    /// Refused, or not within a minute.
    pub fn failover(&self) -> Result<usize, ServerError> {
        let before = self.primary();
        let asked =
            self.ask("SENTINEL FAILOVER", |sentinel| sentinel.command(&["SENTINEL", "FAILOVER", SERVICE]));
        asked?;
        self.wait_for_another(before.unwrap_or(usize::MAX))
    }

    /// Waits until another server than `before` takes writes, and answers which.
    ///
    /// # Errors
    /// Not within a minute.
    pub fn wait_for_another(&self, before: usize) -> Result<usize, ServerError> {
        let mut found = None;
        self.wait("fail over", || {
            let others = self.servers.iter().enumerate().filter(|(at, _)| *at != before);
            found = others.filter(|(_, server)| state::is_primary(server)).map(|(at, _)| at).next();
            found.is_some()
        })?;
        found.ok_or(ServerError::Unresponsive { what: "fail over" })
    }

    /// Waits until all Sentinels name this server, and say that its replicas are `replicas` in number.
    ///
    /// # Errors
    /// Not within a minute.
    pub fn wait_settled(&self, primary: usize, replicas: usize) -> Result<(), ServerError> {
        let port = self.servers[primary].port();
        let others = self.sentinels.len() - 1;
        self.wait("settle", || {
            self.sentinels.iter().all(|sentinel| state::is_settled(sentinel, port, replicas, others))
        })
    }

    /// From now on nothing that this server acknowledges reaches its replicas. Waits until they have noticed.
    ///
    /// # Errors
    /// It does not answer.
    pub fn cut_replication(&self, primary: usize) -> Result<(), ServerError> {
        let server = &self.servers[primary];
        server.command(&["ACL", "SETUSER", "default", "-psync", "-sync", "-replconf"])?;
        server.command(&["CLIENT", "KILL", "TYPE", "replica"])?;
        self.wait("lose its replicas", || state::replicas_of(server) == Some(0))
    }

    /// Waits until every other server has all that this one has written so far.
    ///
    /// # Errors
    /// Not within a minute.
    pub fn wait_in_sync(&self, primary: usize) -> Result<(), ServerError> {
        let written = state::written(&self.servers[primary]);
        self.wait("replicate", || {
            let others =
                self.servers.iter().enumerate().filter(|(at, server)| *at != primary && server.is_running());
            others.into_iter().all(|(_, server)| state::has_read(server) >= written)
        })
    }

    /// The first Sentinel that does it; another one may be busy with an earlier failover.
    fn ask(
        &self,
        what: &'static str,
        ask: impl Fn(&RedisServer) -> Result<Reply, ServerError>,
    ) -> Result<(), ServerError> {
        self.wait(what, || {
            self.sentinels.iter().any(|sentinel| ask(sentinel).is_ok_and(|reply| !reply.is_error()))
        })
    }

    fn wait(&self, what: &'static str, mut is_so: impl FnMut() -> bool) -> Result<(), ServerError> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            if Instant::now() >= deadline {
                return Err(ServerError::Unresponsive { what });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}
