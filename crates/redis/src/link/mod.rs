//! A connection that replaces itself.
//!
//! One task per link connects, with growing pauses, from the first use until it succeeds; a broken or silent
//! connection is replaced at once. Callers wait for the attempt under way and no longer: while the link pauses
//! after a failed attempt they are told at once, and the pause is cut short for the next one.

mod connecting;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use lockkeeper_core::Refusal;
use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::time::timeout;

use self::connecting::ConnectTask;
use crate::cluster::Manner;
use crate::config::{
    MAX_IN_FLIGHT, MAX_RECONNECT_PAUSE, MAX_SILENT_COMMANDS, MIN_RECONNECT_PAUSE, PARKED_MARGIN, SHORT_LIFE,
};
use crate::connect::{Connector, Ears};
use crate::error::{CallError, Failure, classify, rounded};
use crate::native::Way;
use crate::probe::ServerInfo;
use crate::redis1::Adopted;
use crate::sentinel::SEEK_PAUSE;

/// Why a connection to a primary is given up.
const LEFT: &str = "another server is the primary now";

/// A way to a server: a connection of our own, or one that the user lent.
#[derive(Clone, Debug)]
pub(crate) enum Link {
    Own(Arc<OwnLink>),
    Adopted(Arc<Adopted>),
}

/// A usable connection.
#[derive(Clone)]
pub(crate) struct Up {
    wire: Wire,
    about: Arc<About>,
}

/// What is known of a connection. In one piece, because every command clones it.
struct About {
    info: Arc<ServerInfo>,
    generation: u64,
    /// Of the primary that it leads to; 0 where nobody looks out for one.
    term: u64,
    since: Instant,
    /// Commands in a row without an answer.
    silent: AtomicU32,
    /// How plain locks are given back here, once that was tried.
    way: OnceLock<Way>,
    /// Closed when the runtime that drives the connection has ended. `None` for a lent connection.
    home: Option<oneshot::Sender<()>>,
}

#[derive(Clone)]
enum Wire {
    Own(MultiplexedConnection),
    Adopted(Arc<Adopted>),
}

impl Up {
    /// On a connection that the user lent.
    fn adopted(adopted: Arc<Adopted>, info: Arc<ServerInfo>) -> Self {
        Self { wire: Wire::Adopted(adopted), about: Arc::new(About::new(info, 0, 0, None)) }
    }

    pub(crate) fn info(&self) -> &Arc<ServerInfo> {
        &self.about.info
    }

    /// Which connection of its link it is.
    pub(crate) fn generation(&self) -> u64 {
        self.about.generation
    }

    pub(crate) fn way(&self) -> Option<Way> {
        self.about.way.get().copied()
    }

    pub(crate) fn set_way(&self, way: Way) {
        // Another caller may have found out at the same time; they found the same.
        let _ = self.about.way.set(way);
    }
}

impl About {
    fn new(info: Arc<ServerInfo>, generation: u64, term: u64, home: Option<oneshot::Sender<()>>) -> Self {
        Self {
            info,
            generation,
            term,
            since: Instant::now(),
            silent: AtomicU32::new(0),
            way: OnceLock::new(),
            home,
        }
    }

    fn is_young(&self) -> bool {
        self.since.elapsed() < SHORT_LIFE
    }

    /// It ended with its runtime: nothing is wrong with the server.
    fn is_homeless(&self) -> bool {
        self.home.as_ref().is_some_and(oneshot::Sender::is_closed)
    }
}

impl Link {
    /// The connection, waiting for the attempt under way.
    pub(crate) async fn up(&self, within: Duration) -> Result<Up, Failure> {
        match self {
            Self::Own(link) => link.up(within).await,
            Self::Adopted(adopted) => {
                let info = adopted.info(within).await?;
                Ok(Up::adopted(adopted.clone(), info))
            }
        }
    }

    /// Sends one command.
    pub(crate) async fn send(
        &self,
        up: &mut Up,
        command: &Cmd,
        within: Duration,
    ) -> Result<Value, CallError> {
        let result = match (self, &mut up.wire) {
            (Self::Own(link), Wire::Own(connection)) => {
                timeout(within, link.exchange(&up.about, connection, command)).await
            }
            (_, Wire::Own(connection)) => timeout(within, connection.req_packed_command(command)).await,
            (_, Wire::Adopted(adopted)) => {
                timeout(within, adopted.connection().req_packed_command(command)).await
            }
        };
        let result = match result {
            Ok(reply) => reply.and_then(Value::extract_error).map_err(|error| classify(&error)),
            Err(_) => Err(CallError::Silent),
        };
        if let Self::Own(link) = self {
            link.judge(&up.about, result.as_ref().err());
        }
        result
    }

    /// Sends one command, after `ASKING` where a cluster node referred us here for this time only.
    pub(crate) async fn send_in(
        &self,
        manner: Manner,
        up: &mut Up,
        command: &Cmd,
        within: Duration,
    ) -> Result<Value, CallError> {
        if !manner.asking {
            return self.send(up, command, within).await;
        }
        let both = [redis::cmd("ASKING"), command.clone()];
        let answers = self.send_together(up, &both, within).await?;
        answers
            .into_iter()
            .nth(1)
            .unwrap_or_else(|| Err(CallError::Broken("an answer is missing".to_owned())))
    }

    /// Sends commands right after each other, with none of others in between. One result for each that was answered.
    pub(crate) async fn send_together(
        &self,
        up: &mut Up,
        commands: &[Cmd],
        within: Duration,
    ) -> Result<Vec<Result<Value, CallError>>, CallError> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        commands.iter().for_each(|command| _ = pipeline.add_command(command.clone()));
        let count = commands.len();
        let result = match (self, &mut up.wire) {
            (Self::Own(link), Wire::Own(connection)) => {
                timeout(within, link.exchange_together(&up.about, connection, &pipeline, count)).await
            }
            (_, Wire::Own(connection)) => {
                timeout(within, connection.req_packed_commands(&pipeline, 0, count)).await
            }
            (_, Wire::Adopted(adopted)) => {
                timeout(within, adopted.connection().req_packed_commands(&pipeline, 0, count)).await
            }
        };
        let result = match result {
            Ok(Ok(values)) => {
                let answered = |value: Value| value.extract_error().map_err(|error| classify(&error));
                Ok(values.into_iter().map(answered).collect())
            }
            Ok(Err(error)) => Err(classify(&error)),
            Err(_) => Err(CallError::Silent),
        };
        if let Self::Own(link) = self {
            let refused =
                result.as_ref().ok().and_then(|all: &Vec<_>| all.iter().find_map(|one| one.as_ref().err()));
            link.judge(&up.about, result.as_ref().err().or(refused));
        }
        result
    }

    /// The number of connections made so far; changes when one was replaced. `None` for a lent connection.
    pub(crate) fn generations(&self) -> Option<watch::Receiver<u64>> {
        match self {
            Self::Own(link) => Some(link.generations.subscribe()),
            Self::Adopted(_) => None,
        }
    }

    /// There is a connection at the moment, and it is told of changed keys.
    pub(crate) fn hears(&self) -> bool {
        match self {
            Self::Own(link) if link.ears == Ears::Open => {
                matches!(&*link.state.borrow(), State::Up(up) if up.info().tracking && !link.is_left(&up.about))
            }
            _ => false,
        }
    }

    /// There is a connection at the moment, and it leads to a server that was the primary before.
    pub(crate) fn is_left(&self) -> bool {
        match self {
            Self::Own(link) => matches!(&*link.state.borrow(), State::Up(up) if link.is_left(&up.about)),
            Self::Adopted(_) => false,
        }
    }

    /// What the probe of the connection found, if there is one at the moment.
    pub(crate) fn info(&self) -> Option<Arc<ServerInfo>> {
        match self {
            Self::Own(link) => match &*link.state.borrow() {
                State::Up(up) => Some(up.info().clone()),
                _ => None,
            },
            Self::Adopted(adopted) => adopted.info.get().cloned(),
        }
    }

    /// Somebody has wanted this connection.
    pub(crate) fn is_in_use(&self) -> bool {
        match self {
            Self::Own(link) => !matches!(*link.state.borrow(), State::Idle),
            Self::Adopted(_) => true,
        }
    }

    /// There is a connection at the moment, as far as is known.
    pub(crate) fn is_up(&self) -> bool {
        match self {
            Self::Own(link) => matches!(&*link.state.borrow(), State::Up(up) if !link.is_left(&up.about)),
            Self::Adopted(_) => true,
        }
    }
}

/// A connection of our own.
pub(crate) struct OwnLink {
    connector: Arc<Connector>,
    ears: Ears,
    state: watch::Sender<State>,
    generations: watch::Sender<u64>,
    next_generation: AtomicU64,
    /// The task that may change the state; an older one was given up.
    task: AtomicU64,
    /// When it last did.
    stirred: Mutex<Instant>,
    /// So many connections in a row broke soon after they were made.
    short_lived: AtomicU32,
    /// Why the last attempt to connect failed.
    trouble: Mutex<Option<String>>,
    /// Somebody wanted a connection during a pause.
    wanted: Notify,
    /// Bounds the memory of commands under way. (The client's own limit costs twice as much.)
    places: Semaphore,
}

enum State {
    /// Nothing is under way.
    Idle,
    /// The task attempts to connect.
    Connecting,
    /// The task pauses after a failed attempt.
    Pausing(Failure),
    /// Connected.
    Up(Up),
}

impl std::fmt::Debug for OwnLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnLink({})", self.connector.name())
    }
}

impl OwnLink {
    pub(crate) fn new(connector: Arc<Connector>, ears: Ears) -> Arc<Self> {
        Arc::new(Self {
            connector,
            ears,
            state: watch::Sender::new(State::Idle),
            generations: watch::Sender::new(0),
            next_generation: AtomicU64::new(1),
            task: AtomicU64::new(0),
            stirred: Mutex::new(Instant::now()),
            short_lived: AtomicU32::new(0),
            trouble: Mutex::default(),
            wanted: Notify::new(),
            places: Semaphore::new(MAX_IN_FLIGHT),
        })
    }

    async fn up(self: &Arc<Self>, within: Duration) -> Result<Up, Failure> {
        let standing = match &*self.state.borrow() {
            State::Up(up) => Some(up.clone()),
            _ => None,
        };
        match standing {
            Some(up) if self.is_left(&up.about) => self.replace(&up.about, LEFT),
            Some(up) => return Ok(up),
            None => {}
        }
        match timeout(within, self.attempted()).await {
            Ok(result) => result,
            Err(_) => Err(self.late(within)),
        }
    }

    /// Another server has become the primary since.
    fn is_left(&self, about: &About) -> bool {
        self.connector.lookout().is_some_and(|lookout| lookout.term() != about.term)
    }

    fn late(&self, within: Duration) -> Failure {
        let Some(lookout) = self.connector.lookout() else {
            return Failure::unreachable(format!("not connected within {:?}", rounded(within)));
        };
        let trouble = self.trouble.lock().clone().unwrap_or_default();
        let reason = if trouble.is_empty() { trouble } else { format!(": {trouble}") };
        let detail =
            format!("no primary of service `{}` within {:?}{reason}", lookout.service(), rounded(within));
        Failure::unreachable(detail)
    }

    /// The outcome of the attempt under way, or of one that is started.
    async fn attempted(self: &Arc<Self>) -> Result<Up, Failure> {
        let mut changes = self.state.subscribe();
        // A task that ends with its runtime is started once more, on ours; a pause may have to end.
        for _ in 0..3 {
            self.give_up_a_parked_task();
            self.ensure_connecting();
            match changes.wait_for(|state| !matches!(state, State::Connecting)).await.as_deref() {
                Ok(State::Up(up)) => return Ok(up.clone()),
                Ok(State::Pausing(failure)) => {
                    self.wanted.notify_one();
                    if !self.connector.has_connected_since(*self.stirred.lock()) {
                        return Err(failure.clone());
                    }
                }
                Ok(State::Idle | State::Connecting) => {}
                Err(_) => break,
            }
            // Another lane has reached the server since: the next attempt is worth waiting for.
            if changes.wait_for(|state| !matches!(state, State::Pausing(_))).await.is_err() {
                break;
            }
        }
        Err(Failure::unreachable("not connected: the attempt was abandoned"))
    }

    /// A task on a runtime that is alive and not driven would keep everybody waiting for ever.
    fn give_up_a_parked_task(&self) {
        let longest = self
            .connector
            .config
            .connect_timeout
            .saturating_add(MAX_RECONNECT_PAUSE)
            .saturating_add(PARKED_MARGIN);
        let is_late = || self.stirred.lock().elapsed() > longest;
        if is_late() {
            self.state.send_if_modified(|state| {
                let parked = matches!(state, State::Connecting | State::Pausing(_)) && is_late();
                if parked {
                    *state = State::Idle;
                }
                parked
            });
        }
    }

    /// Starts the connecting task unless it runs or is not needed.
    fn ensure_connecting(self: &Arc<Self>) {
        let mut id = None;
        self.state.send_if_modified(|state| {
            if matches!(state, State::Idle) {
                *state = State::Connecting;
                id = Some(self.next_task());
            }
            id.is_some()
        });
        if let Some(id) = id {
            self.spawn(id, None);
        }
    }

    /// From now on an older task may change nothing. Called where the state is locked.
    fn next_task(&self) -> u64 {
        *self.stirred.lock() = Instant::now();
        self.task.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The task runs on the caller's runtime, and the connection with it: that spares a change of thread per call.
    fn spawn(self: &Arc<Self>, id: u64, first_pause: Option<Duration>) {
        let task = ConnectTask { link: Arc::downgrade(self), id };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(task.run(first_pause))),
            Err(_) => drop(task),
        }
    }

    async fn exchange(
        &self,
        about: &About,
        connection: &mut MultiplexedConnection,
        command: &Cmd,
    ) -> RedisResult<Value> {
        let _place = self.places.acquire().await;
        self.unless_left(about, connection.req_packed_command(command)).await
    }

    /// Nothing is sent to a server that is not the primary any more, nor waited for from it.
    async fn unless_left<T>(
        &self,
        about: &About,
        exchange: impl Future<Output = RedisResult<T>>,
    ) -> RedisResult<T> {
        let Some(lookout) = self.connector.lookout() else { return exchange.await };
        tokio::select! {
            biased;
            () = lookout.left(about.term) => Err(std::io::Error::other(LEFT).into()),
            result = exchange => result,
        }
    }

    async fn exchange_together(
        &self,
        about: &About,
        connection: &mut MultiplexedConnection,
        commands: &Pipeline,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let _place = self.places.acquire().await;
        self.unless_left(about, connection.req_packed_commands(commands, 0, count)).await
    }

    /// Notes how a command ended, and replaces a connection that is broken or silent.
    fn judge(self: &Arc<Self>, about: &About, error: Option<&CallError>) {
        match error {
            Some(CallError::Broken(reason)) => {
                self.ask_for_the_primary();
                self.replace(about, reason);
            }
            // A demoted primary. Its name may lead to the new one by now; not sought more often than connections live.
            // Where Sentinels say which that is, no connection stands that has not just been the primary's.
            Some(CallError::Answered(words))
                if words.refusal() == Refusal::ReadOnly && (!about.is_young() || about.term > 0) =>
            {
                self.ask_for_the_primary();
                self.replace(about, words.text());
            }
            Some(CallError::Silent) => {
                if about.silent.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_SILENT_COMMANDS {
                    self.ask_for_the_primary();
                    self.replace(about, "no answers");
                }
            }
            _ => {
                if about.silent.load(Ordering::Relaxed) > 0 {
                    about.silent.store(0, Ordering::Relaxed);
                }
            }
        }
    }

    fn ask_for_the_primary(&self) {
        if let Some(lookout) = self.connector.lookout() {
            lookout.ask_now();
        }
    }

    /// Makes another connection at once; after the second one in a row that broke soon, after a growing pause.
    fn replace(self: &Arc<Self>, broken: &About, reason: &str) {
        let (mut pause, mut id) = (None, None);
        self.state.send_if_modified(|state| {
            let current = matches!(state, State::Up(up) if up.about.generation == broken.generation);
            if current {
                pause = self.pause_after(broken);
                let breaks = || Failure::unreachable(format!("connections break: {reason}"));
                *state = match pause {
                    // Whoever has the time waits for a primary.
                    Some(_) if self.connector.lookout().is_some() => {
                        *self.trouble.lock() = Some(breaks().detail);
                        State::Connecting
                    }
                    Some(_) => State::Pausing(breaks()),
                    None => State::Connecting,
                };
                id = Some(self.next_task());
            }
            current
        });
        if let Some(id) = id {
            tracing::warn!(address = %self.connector.name(), reason, "redis connection replaced");
            self.spawn(id, pause);
        }
    }

    fn pause_after(&self, broken: &About) -> Option<Duration> {
        if broken.is_homeless() || self.is_left(broken) {
            return None;
        }
        if !broken.is_young() {
            self.short_lived.store(0, Ordering::Relaxed);
            return None;
        }
        let in_a_row = self.short_lived.fetch_add(1, Ordering::Relaxed) + 1;
        let longest = if self.connector.lookout().is_some() { SEEK_PAUSE } else { MAX_RECONNECT_PAUSE };
        (in_a_row > 1).then(|| MIN_RECONNECT_PAUSE.saturating_mul(1 << in_a_row.min(16)).min(longest))
    }
}
