//! One errand on its way through a cluster: to the server of its slot, and on to wherever it is referred.
//!
//! What a server refused was not applied, so asking elsewhere, or again, is safe for everything. What was not answered
//! is the errand's own affair.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, Refusal, Uptime};
use redis::{Cmd, Value};

use super::Cluster;
use super::redirect::{Kind, Redirect};
use crate::attempt::unanswered;
use crate::error::{CallError, ServerWords};
use crate::node::{Lane, Node};

/// The first pause before an errand is tried again, and the longest; it doubles, with jitter.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// So many redirections in a row are followed at once; more wait for a pause each.
const HOPS_AT_ONCE: u32 = 3;
/// A connection is waited for so long, then the map is looked at again.
const PATIENCE: Duration = Duration::from_millis(500);

/// How a server is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// The slot is on its way there: the command is preceded by `ASKING`.
    pub(crate) asking: bool,
    /// The longest wait for a connection.
    pub(crate) patience: Duration,
}

impl Default for Manner {
    fn default() -> Self {
        Self { asking: false, patience: Duration::MAX }
    }
}

/// What came of one try.
pub(crate) enum Step<T> {
    Done(T),
    /// It is to be tried again at once.
    Again,
    /// The server said no, in these words. *Not applied.*
    Refused(ServerWords),
}

/// Something to be asked of a server.
pub(crate) trait Errand: Send {
    type Done: Send;
    const NAME: &'static str;

    /// Asks once.
    fn try_on(
        &mut self,
        node: &Node,
        manner: Manner,
    ) -> impl Future<Output = Result<Step<Self::Done>, Error>> + Send;

    /// The error as the caller is to see it.
    fn conclude(&self, error: Error) -> Error;
}

/// Where an errand goes next.
enum Next {
    /// To the server of its slot.
    Home,
    To(Arc<Node>, bool),
}

/// An errand that ends by a moment.
pub(crate) struct Route<'a> {
    pub(super) cluster: &'a Arc<Cluster>,
    pub(super) lane: Lane,
    /// `None`: any server will do.
    pub(super) slot: Option<u16>,
    pub(super) ends: Uptime,
}

impl Route<'_> {
    pub(crate) async fn run<E: Errand>(self, mut errand: E) -> Result<E::Done, Error> {
        let (mut next, mut hops, mut pause) = (Next::Home, 0, PAUSE.0);
        loop {
            let (asked, result) = self.step(&mut errand, next).await;
            let trouble = match result {
                Ok(Step::Done(done)) => return Ok(done),
                Ok(Step::Again) => {
                    self.cluster.look_soon(self.lane);
                    next = Next::Home;
                    continue;
                }
                Ok(Step::Refused(words)) => {
                    self.cluster.look_soon(self.lane);
                    if let Some(redirect) = Redirect::read(&words) {
                        next = self.follow(&redirect, asked.as_ref());
                        hops += 1;
                        if hops <= HOPS_AT_ONCE {
                            continue;
                        }
                        // Two that refer to each other: the map may know better by the end of the pause.
                        next = Next::Home;
                        let detail = format!("the servers do not agree who keeps the slot: {}", words.text());
                        Error::new(ErrorKind::Refused(Refusal::ClusterDown), E::NAME, detail)
                    } else {
                        next = Next::Home;
                        words.into_error(E::NAME)
                    }
                }
                Err(error) => {
                    next = Next::Home;
                    error
                }
            };
            if !self.may_pass(&trouble) || !self.rest(&mut pause).await {
                return Err(errand.conclude(trouble));
            }
            hops = 0;
        }
    }

    /// Who was asked, if somebody was, and what came of it.
    async fn step<E: Errand>(
        &self,
        errand: &mut E,
        next: Next,
    ) -> (Option<Arc<Node>>, Result<Step<E::Done>, Error>) {
        let (node, asking) = match next {
            Next::Home => match self.cluster.home(self.slot, self.lane, self.left()).await {
                Ok(home) => (home, false),
                Err(failure) => return (None, Err(failure.into_error(E::NAME))),
            },
            Next::To(node, asking) => (node, asking),
        };
        let result = errand.try_on(&node, Manner { asking, patience: PATIENCE }).await;
        if result.as_ref().is_err_and(Error::is_transient) {
            self.cluster.look_soon(self.lane);
        }
        (Some(node), result)
    }

    fn follow(&self, redirect: &Redirect, from: Option<&Arc<Node>>) -> Next {
        let node = match redirect.kind {
            Kind::Moved => self.cluster.moved(redirect, from),
            Kind::Ask => self.cluster.passing(redirect, from),
        };
        node.map_or(Next::Home, |node| Next::To(node, redirect.kind == Kind::Ask))
    }

    /// It was not applied, and another moment, or another server, may do it.
    fn may_pass(&self, error: &Error) -> bool {
        match error.kind() {
            ErrorKind::Unreachable => true,
            ErrorKind::Refused(refusal) => matches!(
                refusal,
                Refusal::ClusterDown | Refusal::PrimaryDown | Refusal::Loading | Refusal::ReadOnly
            ),
            _ => false,
        }
    }

    /// A pause with jitter; false when there is no time for it.
    async fn rest(&self, pause: &mut Duration) -> bool {
        let length = pause.mul_f64(rand::random_range(0.5..1.0));
        *pause = (*pause * 2).min(PAUSE.1);
        if self.left() <= length {
            return false;
        }
        tokio::time::sleep(length).await;
        true
    }

    fn left(&self) -> Duration {
        self.ends.since(self.cluster.uptime())
    }
}

/// A plain command that takes nothing.
pub(crate) struct Look<'a> {
    pub(crate) lane: Lane,
    pub(crate) operation: &'static str,
    pub(crate) command: &'a Cmd,
    pub(crate) ends: Uptime,
}

impl Errand for Look<'_> {
    type Done = Value;
    const NAME: &'static str = "query";

    async fn try_on(&mut self, node: &Node, manner: Manner) -> Result<Step<Value>, Error> {
        let left = || self.ends.since(node.clock().uptime());
        let link = node.link(self.lane);
        let up = link.up(left().min(manner.patience)).await;
        let mut up = up.map_err(|failure| failure.into_error(self.operation))?;
        match link.send_in(manner, &mut up, self.command, left()).await {
            Ok(value) => Ok(Step::Done(value)),
            Err(CallError::Answered(words)) => Ok(Step::Refused(words)),
            Err(error) => Err(unanswered(self.operation, &error, None)),
        }
    }

    fn conclude(&self, error: Error) -> Error {
        error
    }
}
