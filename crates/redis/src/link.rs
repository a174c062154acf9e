//! A connection that replaces itself.
//!
//! One task per link connects, with growing pauses, from the first use until it succeeds; a broken or silent
//! connection is replaced at once. Callers wait for the attempt under way and no longer: while the link pauses
//! after a failed attempt they are told at once, and the pause is cut short for the next one.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

use crate::config::{
    MAX_IN_FLIGHT, MAX_RECONNECT_PAUSE, MAX_SILENT_COMMANDS, MIN_RECONNECT_PAUSE, SHORTEST_WANTED_PAUSE,
};
use crate::connect::Connector;
use crate::error::{CallError, Failure, classify};
use crate::probe::ServerInfo;
use crate::redis1::Adopted;

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
    /// Commands in a row without an answer.
    silent: AtomicU32,
}

#[derive(Clone)]
enum Wire {
    Own(MultiplexedConnection),
    Adopted(Arc<Adopted>),
}

impl Up {
    fn new(wire: Wire, info: Arc<ServerInfo>, generation: u64) -> Self {
        Self { wire, about: Arc::new(About { info, generation, silent: AtomicU32::new(0) }) }
    }

    pub(crate) fn info(&self) -> &Arc<ServerInfo> {
        &self.about.info
    }
}

impl Link {
    /// The connection, waiting for the attempt under way.
    pub(crate) async fn up(&self, within: Duration) -> Result<Up, Failure> {
        match self {
            Self::Own(link) => link.up(within).await,
            Self::Adopted(adopted) => {
                let info = adopted.info(within).await?;
                Ok(Up::new(Wire::Adopted(adopted.clone()), info, 0))
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
                timeout(within, link.exchange(connection, command)).await
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

    /// The number of connections made so far; changes when one was replaced. `None` for a lent connection.
    pub(crate) fn generations(&self) -> Option<watch::Receiver<u64>> {
        match self {
            Self::Own(link) => Some(link.generations.subscribe()),
            Self::Adopted(_) => None,
        }
    }

    /// There is a connection at the moment, as far as is known.
    pub(crate) fn is_up(&self) -> bool {
        match self {
            Self::Own(link) => matches!(*link.state.borrow(), State::Up(_)),
            Self::Adopted(_) => true,
        }
    }
}

/// A connection of our own.
pub(crate) struct OwnLink {
    connector: Arc<Connector>,
    state: watch::Sender<State>,
    generations: watch::Sender<u64>,
    next_generation: AtomicU64,
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
        write!(f, "OwnLink({})", self.connector.config.address())
    }
}

impl OwnLink {
    pub(crate) fn new(connector: Arc<Connector>) -> Arc<Self> {
        Arc::new(Self {
            connector,
            state: watch::Sender::new(State::Idle),
            generations: watch::Sender::new(0),
            next_generation: AtomicU64::new(1),
            wanted: Notify::new(),
            places: Semaphore::new(MAX_IN_FLIGHT),
        })
    }

    async fn up(self: &Arc<Self>, within: Duration) -> Result<Up, Failure> {
        if let State::Up(up) = &*self.state.borrow() {
            return Ok(up.clone());
        }
        let mut changes = self.state.subscribe();
        self.ensure_connecting();
        let waiting = changes.wait_for(|state| !matches!(state, State::Connecting | State::Idle));
        match timeout(within, waiting).await {
            Ok(Ok(state)) => match &*state {
                State::Up(up) => Ok(up.clone()),
                State::Pausing(failure) => {
                    self.wanted.notify_one();
                    Err(failure.clone())
                }
                State::Idle | State::Connecting => Err(Failure::unreachable("not connected")),
            },
            Ok(Err(_closed)) => Err(Failure::unreachable("not connected")),
            Err(_) => Err(Failure::unreachable(format!("not connected within {within:?}"))),
        }
    }

    /// Starts the connecting task unless it runs or is not needed.
    fn ensure_connecting(self: &Arc<Self>) {
        let idle = self.state.send_if_modified(|state| {
            let idle = matches!(state, State::Idle);
            if idle {
                *state = State::Connecting;
            }
            idle
        });
        if idle {
            self.spawn();
        }
    }

    /// The task runs on the caller's runtime, and the connection with it: that spares a change of thread per call.
    fn spawn(self: &Arc<Self>) {
        let task = ConnectTask { link: Arc::downgrade(self), finished: false };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(task.run())),
            Err(_) => drop(task),
        }
    }

    async fn exchange(&self, connection: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
        let _place = self.places.acquire().await;
        connection.req_packed_command(command).await
    }

    /// Notes how a command ended, and replaces a connection that is broken or silent.
    fn judge(self: &Arc<Self>, about: &About, error: Option<&CallError>) {
        match error {
            Some(CallError::Broken(reason)) => self.replace(about.generation, reason),
            Some(CallError::Silent) => {
                if about.silent.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_SILENT_COMMANDS {
                    self.replace(about.generation, "no answers");
                }
            }
            _ => {
                if about.silent.load(Ordering::Relaxed) > 0 {
                    about.silent.store(0, Ordering::Relaxed);
                }
            }
        }
    }

    fn replace(self: &Arc<Self>, broken: u64, reason: &str) {
        let replaced = self.state.send_if_modified(|state| {
            let current = matches!(state, State::Up(up) if up.about.generation == broken);
            if current {
                *state = State::Connecting;
            }
            current
        });
        if replaced {
            tracing::warn!(address = %self.connector.config.address(), reason, "redis connection replaced");
            self.spawn();
        }
    }

    fn set_up(&self, connection: MultiplexedConnection, info: ServerInfo) {
        let generation = self.next_generation.fetch_add(1, Ordering::Relaxed);
        let up = Up::new(Wire::Own(connection), Arc::new(info), generation);
        self.state.send_replace(State::Up(up));
        self.generations.send_replace(generation);
    }
}

/// The connecting task. When its runtime dies with it, the link is idle again and the next caller starts another.
struct ConnectTask {
    link: Weak<OwnLink>,
    finished: bool,
}

impl ConnectTask {
    async fn run(mut self) {
        let mut pause = MIN_RECONNECT_PAUSE;
        while let Some(connector) = self.link.upgrade().map(|link| link.connector.clone()) {
            let result = connector.connect().await;
            let Some(link) = self.link.upgrade() else { return };
            match result {
                Ok((connection, info)) => {
                    self.finished = true;
                    link.set_up(connection, info);
                    return;
                }
                Err(failure) => {
                    tracing::debug!(address = %connector.config.address(), error = %failure.detail, "redis connection failed");
                    link.state.send_replace(State::Pausing(failure));
                }
            }
            Self::pause(&link, pause.mul_f64(rand::random_range(0.5..1.0))).await;
            drop(link);
            pause = (pause * 2).min(MAX_RECONNECT_PAUSE);
            if let Some(link) = self.link.upgrade() {
                link.state.send_replace(State::Connecting);
            }
        }
    }
}

impl ConnectTask {
    /// Pauses; a caller cuts a long pause short, so that renewals of short leases do not wait for it.
    async fn pause(link: &OwnLink, pause: Duration) {
        tokio::time::sleep(pause.min(SHORTEST_WANTED_PAUSE)).await;
        let rest = tokio::time::sleep(pause.saturating_sub(SHORTEST_WANTED_PAUSE));
        tokio::select! {
            () = rest => {}
            () = link.wanted.notified() => {}
        }
    }
}

impl Drop for ConnectTask {
    fn drop(&mut self) {
        if let Some(link) = self.link.upgrade().filter(|_| !self.finished) {
            link.state.send_replace(State::Idle);
        }
    }
}
