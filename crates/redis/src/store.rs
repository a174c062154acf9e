//! The Redis store: three connections, and the generic way from a decision to its script and back.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Answer, Apply, Clock, Error, ErrorKind, Keys, Timestamp, Uptime, WrongType};
use parking_lot::Mutex;
use redis::{Cmd, FromRedisValue, Value, cmd};
use tokio::sync::watch;

use crate::clock::ServerClock;
use crate::config::RedisConfig;
use crate::connect::{Connector, Ears};
use crate::error::{CallError, malformed};
use crate::link::{Link, OwnLink, Up};
use crate::port::Port;
use crate::probe::ServerInfo;
use crate::redis1::Adopted;
use crate::reply::{Fields, Malformed};
use crate::wake::Watcher;

/// What a connection is for. They are apart so that none delays another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Commands that a caller waits for.
    Command,
    /// Renewals, compensations and background releases.
    Renewal,
    /// Those who wait for a lock; told of changed keys where the server allows it. Only what reads a lock before it
    /// writes belongs here: see [`Watch`](lockkeeper_core::lock::Watch).
    Waiting,
}

const LANES: usize = 3;
/// What a command usually has room in, so that it does not grow word by word.
const USUAL_WORDS: usize = 32;
const USUAL_BYTES: usize = 256;

/// A store on one Redis or Valkey server. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
    lane: Lane,
}

#[derive(Debug)]
struct Shared {
    links: [Link; LANES],
    owner: Owner,
    response_timeout: Duration,
}

/// Who owns the connections, and with them the knowledge of the server's clock.
#[derive(Debug)]
enum Owner {
    Us(Arc<Connector>),
    Lender(Arc<Adopted>),
}

impl RedisStore {
    /// A store that connects when it is first used. Must be used inside a Tokio runtime.
    pub fn lazy(config: RedisConfig, clock: Arc<dyn Clock>) -> Self {
        let response_timeout = config.response_timeout;
        let clock = ServerClock::new(clock);
        let (watched, connected) = (Arc::default(), Mutex::default());
        let connector = Arc::new(Connector { config, clock, watched, connected });
        let ears = [Ears::Closed, Ears::Closed, Ears::Open];
        let links = ears.map(|ears| Link::Own(OwnLink::new(connector.clone(), ears)));
        let shared = Shared { links, owner: Owner::Us(connector), response_timeout };
        Self { shared: Arc::new(shared), lane: Lane::Command }
    }

    /// A store whose command connection stands.
    ///
    /// # Errors
    /// Unreachable, or refused (credentials).
    pub async fn connect(config: RedisConfig, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let limit = config.connect_timeout;
        let store = Self::lazy(config, clock);
        let up = store.link().up(limit.saturating_add(Duration::from_millis(100))).await;
        up.map_err(|failure| failure.into_error("connect"))?;
        Ok(store)
    }

    pub(crate) fn adopted(connection: Adopted, response_timeout: Duration) -> Self {
        let adopted = Arc::new(connection);
        let links = std::array::from_fn(|_| Link::Adopted(adopted.clone()));
        let shared = Shared { links, owner: Owner::Lender(adopted), response_timeout };
        Self { shared: Arc::new(shared), lane: Lane::Command }
    }

    /// The same store, sending on another of its connections.
    #[must_use]
    pub fn on(&self, lane: Lane) -> Self {
        Self { shared: self.shared.clone(), lane }
    }

    /// The limit for one command.
    pub fn response_timeout(&self) -> Duration {
        self.shared.response_timeout
    }

    /// The server's time now, as far as is known.
    pub fn server_now(&self) -> Timestamp {
        self.clock().now()
    }

    /// By how much the server's clock is ahead of this machine's, in microseconds.
    pub fn server_ahead_us(&self) -> i64 {
        self.clock().ahead_of_wall_us()
    }

    /// What the command connection's probe found; connects if need be.
    ///
    /// # Errors
    /// Unreachable.
    pub async fn server_info(&self, within: Duration) -> Result<Arc<ServerInfo>, Error> {
        self.link()
            .up(within)
            .await
            .map(|up| up.info().clone())
            .map_err(|failure| failure.into_error("probe"))
    }

    /// Changes when this lane's connection was replaced. `None` for a lent connection.
    pub fn reconnections(&self) -> Option<watch::Receiver<u64>> {
        self.link().generations()
    }

    /// Is told of every change of `keys` after a [`Watch`](lockkeeper_core::lock::Watch) on the waiting connection
    /// answered *busy*, as long as that connection [hears](Self::hears_changes). `None` for a lent connection.
    pub fn watcher(&self, keys: &Keys) -> Option<Watcher> {
        match &self.shared.owner {
            Owner::Us(connector) => Some(connector.watched.watch(keys)),
            Owner::Lender(_) => None,
        }
    }

    /// The waiting connection stands, and the server tells it of changed keys.
    pub fn hears_changes(&self) -> bool {
        self.shared.links[Lane::Waiting as usize].hears()
    }

    /// The server refused once to tell of changed keys.
    pub fn may_not_hear(&self) -> bool {
        match &self.shared.owner {
            Owner::Us(connector) => connector.watched.was_refused(),
            Owner::Lender(_) => true,
        }
    }

    /// This lane has a connection at the moment, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.link().is_up()
    }

    /// This lane's connection leads to a cluster, as far as is known.
    pub fn is_cluster(&self) -> bool {
        self.link().info().is_some_and(|info| info.mode == "cluster")
    }

    /// The policy by which the server removes records to make room, as far as is known; see [`ServerInfo::evicts`].
    pub fn evicts(&self) -> Option<String> {
        self.link().info().and_then(|info| info.evicts.clone())
    }

    /// Asks for the server's time: finds out whether this lane's connection still answers. One `TIME`.
    ///
    /// # Errors
    /// As for any command.
    pub async fn heartbeat(&self, within: Duration) -> Result<Timestamp, Error> {
        let sent = self.clock().uptime();
        let (seconds, micros): (u64, u64) = self.ask("heartbeat", &cmd("TIME"), within).await?;
        let at = Timestamp::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros));
        self.clock().observe(sent, at);
        Ok(at)
    }

    /// Runs one plain command that takes nothing, for look-ups and diagnosis.
    ///
    /// # Errors
    /// Unreachable, refused, or no answer in time.
    pub async fn query<T: FromRedisValue>(&self, command: &[&str], within: Duration) -> Result<T, Error> {
        let mut whole = Cmd::new();
        whole.arg(command);
        self.ask("query", &whole, within).await
    }

    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        operation: &'static str,
        command: &Cmd,
        within: Duration,
    ) -> Result<T, Error> {
        let started = self.clock().uptime();
        let mut up = self.link().up(within).await.map_err(|failure| failure.into_error(operation))?;
        let left = within.saturating_sub(self.clock().uptime().since(started));
        match self.link().send(&mut up, command, left).await {
            Ok(value) => redis::from_redis_value(value)
                .map_err(|error| Error::new(ErrorKind::Protocol, operation, error.to_string())),
            Err(CallError::Answered(words)) => {
                Err(Error::new(ErrorKind::Refused(words.refusal()), operation, words.text()))
            }
            Err(error) => Err(unanswered(operation, &error, None)),
        }
    }

    fn link(&self) -> &Link {
        &self.shared.links[self.lane as usize]
    }

    fn clock(&self) -> &ServerClock {
        match &self.shared.owner {
            Owner::Us(connector) => &connector.clock,
            Owner::Lender(adopted) => &adopted.clock,
        }
    }
}

impl<D: Port> Apply<D> for RedisStore {
    async fn apply(&self, at: &Keys, decision: D, within: Duration) -> Result<Answer<D::Reply>, Error> {
        let ends = self.clock().uptime().after(within);
        Attempt { store: self, at, decision, ends, sent: 0, latest: None, in_doubt: None, was_late: false }
            .run()
            .await
    }
}

/// One decision on its way: sent once, and again only where that is safe.
struct Attempt<'a, D> {
    store: &'a RedisStore,
    at: &'a Keys,
    decision: D,
    ends: Uptime,
    /// How many copies were sent that the server may have applied.
    sent: u32,
    /// The latest "not after" of all copies.
    latest: Option<Timestamp>,
    /// A copy was sent and not answered.
    in_doubt: Option<CallError>,
    was_late: bool,
}

/// What to do after one copy was sent.
enum Next<R> {
    Done(Answer<R>),
    Again,
}

impl<D: Port> Attempt<'_, D> {
    async fn run(mut self) -> Result<Answer<D::Reply>, Error> {
        loop {
            match self.try_once().await {
                Ok(Next::Done(answer)) => return Ok(answer),
                Ok(Next::Again) => {}
                Err(error) => return Err(self.in_the_light_of_doubt(error)),
            }
        }
    }

    async fn try_once(&mut self) -> Result<Next<D::Reply>, Error> {
        let mut up =
            self.store.link().up(self.left()).await.map_err(|failure| failure.into_error(D::NAME))?;
        if !up.info().scripts {
            return Err(scripts_forbidden::<D>());
        }
        self.send(&mut up).await
    }

    /// Sends one copy, stamped with what is left of the limit in the server's time (invariant 5 relies on it).
    async fn send(&mut self, up: &mut Up) -> Result<Next<D::Reply>, Error> {
        let clock = self.store.clock();
        let sent_at = clock.uptime();
        let left = self.ends.since(sent_at);
        if left.is_zero() {
            return Err(Error::new(ErrorKind::Unreachable, D::NAME, "no time was left to send it"));
        }
        self.decision.set_not_after(clock.at(sent_at).after(left));
        self.latest = self.latest.max(self.decision.not_after());
        self.sent += 1;
        match self.run_script(up, left).await {
            Ok(value) => self.read(value, sent_at),
            Err(CallError::Answered(words)) => {
                self.sent -= 1;
                Err(words.into_error(D::NAME))
            }
            Err(CallError::Broken(reason)) if D::REPEATABLE && self.in_doubt.is_none() => {
                self.in_doubt = Some(CallError::Broken(reason));
                Ok(Next::Again)
            }
            Err(error) => Err(unanswered(D::NAME, &error, self.latest)),
        }
    }

    /// By hash; by source where the server does not know the hash (a restart, `SCRIPT FLUSH`) or the command. Looking
    /// goes by the read-only commands first, which a paused server lets pass.
    async fn run_script(&self, up: &mut Up, within: Duration) -> Result<Value, CallError> {
        let ways: &[(&str, &str)] = &[
            ("EVALSHA_RO", D::SCRIPT.hash()),
            ("EVAL_RO", D::SCRIPT.source),
            ("EVALSHA", D::SCRIPT.hash()),
            ("EVAL", D::SCRIPT.source),
        ];
        let read_only = D::SCRIPT.read_only && up.info().read_only_scripts;
        let (first, rest) = if read_only { (ways[0], &ways[1..]) } else { (ways[2], &ways[3..]) };
        let mut result = self.store.link().send(up, &self.command(first.0, first.1), within).await;
        for (name, script) in rest {
            match &result {
                Err(CallError::Answered(words)) if words.asks_for_another_way() => {
                    result = self.store.link().send(up, &self.command(name, script), self.left()).await;
                }
                _ => break,
            }
        }
        result
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = Cmd::with_capacity(USUAL_WORDS, USUAL_BYTES + script.len());
        command.arg(name).arg(script);
        D::keys(self.at, &mut command);
        self.decision.arguments(&mut command);
        command
    }

    fn read(&mut self, value: Value, sent_at: Uptime) -> Result<Next<D::Reply>, Error> {
        let malformed = |Malformed(what)| malformed(D::NAME, what);
        let mut fields = Fields::of(value).map_err(malformed)?;
        let at = fields.timestamp().map_err(malformed)?;
        self.store.clock().observe(sent_at, at);
        let status = fields.bytes().map_err(malformed)?;
        match &status[..] {
            b"late" if self.was_late || self.left().is_zero() => {
                Err(Error::new(ErrorKind::TooLate, D::NAME, ""))
            }
            b"late" => {
                self.was_late = true;
                self.sent -= 1;
                Ok(Next::Again)
            }
            b"wrongtype" => {
                let index = fields.index().map_err(malformed)?;
                let side = fields.int().map_err(malformed)? != 0;
                Err(WrongType { index, side }.into_error::<D>(self.at))
            }
            status => {
                let reply = self.decision.read(at, status, fields).map_err(malformed)?;
                Ok(Next::Done(Answer { reply, at, sent: self.sent }))
            }
        }
    }

    fn left(&self) -> Duration {
        self.ends.since(self.store.clock().uptime())
    }

    /// "Not applied" is the answer, unless an earlier copy is still in doubt. Names the keys.
    fn in_the_light_of_doubt(&self, error: Error) -> Error {
        let error = match &self.in_doubt {
            Some(doubt) if !error.may_have_been_applied() => unanswered(D::NAME, doubt, self.latest),
            _ => error,
        };
        if error.key().is_some() { error } else { error.with_key(self.at) }
    }
}

fn unanswered(operation: &'static str, error: &CallError, not_after: Option<Timestamp>) -> Error {
    let detail = match error {
        CallError::Broken(reason) => format!("the connection broke before the answer: {reason}"),
        CallError::Silent | CallError::Answered(_) => "no answer within the limit".to_owned(),
    };
    Error::new(ErrorKind::OutcomeUnknown { not_after }, operation, detail)
}

fn scripts_forbidden<D: Port>() -> Error {
    let detail = "this server or user may not run scripts (EVAL, EVALSHA); nothing was taken";
    Error::new(ErrorKind::Unsupported, D::NAME, detail)
}
