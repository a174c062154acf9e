//! The connections on which a step may be held until others have it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockkeeper_core::Error;
use lockkeeper_core::lock::Durability;
use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::level::{self, Count};
use crate::connect::{Connector, Ears};
use crate::error::{CallError, Failure};
use crate::link::{Link, OwnLink, Up};
use crate::node::{LANES, Lane};

/// So many steps of a lane may be under way at once: those of callers, renewals, and those of who waited. More wait inside
/// their limits. Apart, so that renewals do not wait behind acquisitions that hang.
const CONNECTIONS: [usize; LANES] = [4, 2, 2];
/// A question that nobody needs the answer of gets so much time, before its connection is given up.
const GRACE: Duration = Duration::from_millis(2);

/// The pools of one server, by lane. Connections are made when they are first needed.
#[derive(Debug)]
pub(crate) struct Pools([Arc<Pool>; LANES]);

#[derive(Debug)]
pub(crate) struct Pool {
    connector: Arc<Connector>,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
}

/// A connection that nothing is owed on.
#[derive(Debug)]
struct Idle {
    link: Link,
    /// What was found to work, on which of its connections.
    works: Option<(u64, Durability)>,
}

/// A connection, held for one step.
pub(crate) struct Held {
    pool: Arc<Pool>,
    _place: OwnedSemaphorePermit,
    level: Durability,
    link: Link,
    works: Option<(u64, Durability)>,
    /// The answer to the question behind the script.
    question: Option<Question>,
    /// The connection may still be held by the server, or has an answer for nobody: it is not used again.
    owes: bool,
}

type Answer = Pin<Box<dyn Future<Output = Result<Value, CallError>> + Send>>;

struct Question {
    up: Up,
    answer: Answer,
}

impl Pools {
    pub(crate) fn new(connector: &Arc<Connector>) -> Self {
        Self(CONNECTIONS.map(|most| {
            let places = Arc::new(Semaphore::new(most));
            Arc::new(Pool { connector: connector.clone(), places, idle: Mutex::default() })
        }))
    }

    pub(crate) fn of(&self, lane: Lane) -> &Arc<Pool> {
        &self.0[lane as usize]
    }
}

impl Pool {
    /// A connection of its own for a step at `level`, once one is free.
    pub(crate) async fn hold(self: &Arc<Self>, level: Durability, within: Duration) -> Result<Held, Failure> {
        let place = match timeout(within, self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) => place,
            _ => {
                let detail = "all connections that wait for replicas or disks were busy; nothing was sent";
                return Err(Failure::unreachable(detail));
            }
        };
        let idle = self.idle.lock().pop();
        let Idle { link, works } = idle.unwrap_or_else(|| Idle {
            link: Link::Own(OwnLink::new(self.connector.clone(), Ears::Closed)),
            works: None,
        });
        Ok(Held { pool: self.clone(), _place: place, level, link, works, question: None, owes: false })
    }
}

impl Held {
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Asks, once per connection, whether the level's commands may be used at all.
    pub(crate) async fn check(
        &mut self,
        up: &mut Up,
        operation: &'static str,
        within: Duration,
    ) -> Result<(), Error> {
        let now = Some((up.generation(), self.level));
        if self.works == now {
            return Ok(());
        }
        for probe in level::probes(self.level) {
            self.owes = true;
            let answer = self.link.send(up, &probe, within).await;
            self.owes = matches!(answer, Err(CallError::Silent));
            match answer {
                Ok(_) => {}
                Err(CallError::Answered(words)) => {
                    return Err(level::refused(self.level, &words, operation));
                }
                Err(CallError::Broken(reason)) => return Err(unasked(&reason).into_error(operation)),
                Err(CallError::Silent) => {
                    return Err(unasked("no answer within the limit").into_error(operation));
                }
            }
        }
        self.works = now;
        Ok(())
    }

    /// Sends a script, and the level's question right behind it. Answers as soon as the script does.
    pub(crate) async fn send(
        &mut self,
        up: &mut Up,
        script: &Cmd,
        within: Duration,
    ) -> Result<Value, CallError> {
        self.owes = true;
        let question = level::question(self.level, within);
        let (link, mut own) = (self.link.clone(), up.clone());
        let answer = async move { link.send(&mut own, &question, within).await };
        let mut question = Question { up: up.clone(), answer: Box::pin(answer) };
        let mut script = std::pin::pin!(self.link.send(up, script, within));
        let mut early = None;
        // Polled in this order, so that they are on the wire in this order, and together.
        let sent = std::future::poll_fn(|context| {
            let sent = script.as_mut().poll(context);
            if early.is_none()
                && let Poll::Ready(answer) = question.answer.as_mut().poll(context)
            {
                early = Some(answer);
            }
            sent
        })
        .await;
        if let Some(answer) = early {
            question.answer = Box::pin(std::future::ready(answer));
        }
        self.question = Some(question);
        sent
    }

    /// Nothing was taken, so nobody needs to have it.
    pub(crate) async fn let_be(mut self) {
        if let Some(question) = self.question.take() {
            self.owes =
                !matches!(timeout(GRACE, question.answer).await, Ok(Ok(_) | Err(CallError::Answered(_))));
        }
    }

    /// Waits for the answer to the question, within `left`.
    pub(crate) async fn acknowledged(&mut self, left: impl Fn() -> Duration) -> Count {
        let Some(Question { mut up, answer }) = self.question.take() else {
            return level::count(self.level, None);
        };
        let answer = answer.await;
        self.note(&answer);
        if self.level != Durability::AllReplicas {
            return level::count(self.level, answer.ok().as_ref());
        }
        let online = answer.ok().as_ref().map_or(0, level::online);
        if online == 0 {
            return level::replicas(1, None);
        }
        self.owes = true;
        let left = left();
        let answer = self.link.send(&mut up, &level::wait(online, left), left).await;
        self.note(&answer);
        level::replicas(online, answer.ok().as_ref())
    }

    fn note(&mut self, answer: &Result<Value, CallError>) {
        self.owes = matches!(answer, Err(CallError::Silent));
        if let Err(error) = answer {
            tracing::debug!(level = %self.level, ?error, "who has it is not known");
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.owes {
            let idle = Idle { link: self.link.clone(), works: self.works };
            self.pool.idle.lock().push(idle);
        }
    }
}

fn unasked(reason: &str) -> Failure {
    Failure::unreachable(format!("the connection could not be tried: {reason}"))
}
