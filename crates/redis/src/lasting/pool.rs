//! The connections on which a step may be held until others have it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use lockkeeper_core::lock::Durability;
use lockkeeper_core::{Error, ErrorKind};
use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::level::{self, Commands, Count};
use crate::connect::{Connector, Ears};
use crate::error::{CallError, Failure};
use crate::link::{Link, OwnLink, Up};
use crate::node::{LANES, Lane};

/// So many steps of a lane may be under way at once: those of callers, renewals, and those of who waited. More wait inside
/// their limits. Apart, so that renewals do not wait behind acquisitions that hang; and more renewals, because with a flush
/// a second each holds its connection for up to one.
const CONNECTIONS: [usize; LANES] = [4, 8, 2];
/// Who waits for a place keeps this part of the time for the step itself.
const KEPT: u32 = 8;
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
    /// So many answers came, of any kind.
    answers: AtomicU64,
    /// In so many steps the server did its part, and others are waited for.
    settling: AtomicU64,
    /// Somebody has wanted one of its connections.
    is_in_use: AtomicBool,
}

/// A connection that nothing is owed on.
#[derive(Debug)]
struct Idle {
    link: Link,
    works: Works,
}

/// What was found to work, on which of the link's connections.
#[derive(Clone, Copy, Debug, Default)]
struct Works {
    generation: u64,
    commands: Commands,
}

/// A connection, held for one step.
pub(crate) struct Held {
    pool: Arc<Pool>,
    _place: OwnedSemaphorePermit,
    level: Durability,
    link: Link,
    works: Works,
    /// So long it took to get a place, if that was most of the time that there was.
    queued: Duration,
    /// The script was answered.
    settles: bool,
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
            Arc::new(Pool {
                connector: connector.clone(),
                places,
                idle: Mutex::default(),
                answers: AtomicU64::new(0),
                settling: AtomicU64::new(0),
                is_in_use: AtomicBool::new(false),
            })
        }))
    }

    pub(crate) fn of(&self, lane: Lane) -> &Arc<Pool> {
        &self.0[lane as usize]
    }

    /// Somebody has wanted one of their connections.
    pub(crate) fn is_in_use(&self) -> bool {
        self.0.iter().any(|pool| pool.is_in_use.load(Ordering::Relaxed))
    }
}

impl Pool {
    /// A connection of its own for a step at `level`, once one is free.
    pub(crate) async fn hold(self: &Arc<Self>, level: Durability, within: Duration) -> Result<Held, Failure> {
        let (began, heard) = (Instant::now(), self.heard());
        self.is_in_use.store(true, Ordering::Relaxed);
        let longest = within.saturating_sub(within / KEPT);
        let place = match timeout(longest, self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) => place,
            _ => return Err(self.full(heard)),
        };
        let queued = Some(began.elapsed()).filter(|queued| *queued > within / 2).unwrap_or_default();
        let Idle { link, works } = self.take_idle().unwrap_or_else(|| Idle {
            link: Link::Own(OwnLink::new(self.connector.clone(), Ears::Closed)),
            works: Works::default(),
        });
        Ok(Held {
            pool: self.clone(),
            _place: place,
            level,
            link,
            works,
            queued,
            settles: false,
            question: None,
            owes: false,
        })
    }

    /// No place became free. The server may be away, too: then nobody has heard from it since `heard` answers.
    fn full(&self, heard: u64) -> Failure {
        let is_there = self.settling.load(Ordering::Relaxed) > 0 || self.heard() != heard;
        Failure {
            kind: if is_there { ErrorKind::Crowded } else { ErrorKind::Unreachable },
            detail: "all connections that wait for replicas or disks were busy; nothing was sent".to_owned(),
        }
    }

    fn heard(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    fn take_idle(&self) -> Option<Idle> {
        let mut idle = self.idle.lock();
        idle.retain(Idle::is_of_now);
        idle.pop()
    }

    fn put_back(&self, one: Idle) {
        let mut idle = self.idle.lock();
        idle.push(one);
        idle.retain(Idle::is_of_now);
    }

    fn note<T>(&self, answer: &Result<T, CallError>) {
        match answer {
            Ok(_) | Err(CallError::Answered(_)) => _ = self.answers.fetch_add(1, Ordering::Relaxed),
            // What broke is rarely alone, and a step has only one more try.
            Err(CallError::Broken(_)) => self.forget_the_idle(),
            Err(CallError::Silent) => {}
        }
    }

    fn forget_the_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        // Not while they are locked.
        drop(idle);
    }
}

impl Idle {
    /// It does not lead to a server that was the primary before.
    fn is_of_now(&self) -> bool {
        !self.link.is_left()
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
        if !up.info().scripts {
            return Err(level::without_scripts(self.level, operation));
        }
        if self.works.generation != up.generation() {
            self.works = Works { generation: up.generation(), commands: 0 };
        }
        for (command, probe) in level::probes(self.level) {
            if self.works.commands & command != 0 {
                continue;
            }
            self.owes = true;
            let answer = self.link.send(up, &probe, within).await;
            self.pool.note(&answer);
            self.owes = matches!(answer, Err(CallError::Silent));
            match answer {
                Ok(_) => self.works.commands |= command,
                Err(CallError::Answered(words)) => {
                    return Err(level::refused(self.level, &words, operation));
                }
                Err(CallError::Broken(reason)) => return Err(unasked(&reason).into_error(operation)),
                Err(CallError::Silent) => {
                    return Err(unasked("no answer within the limit").into_error(operation));
                }
            }
        }
        Ok(())
    }

    /// Sends a script, and the level's question right behind it. Answers as soon as the script does. A script that was
    /// refused wrote nothing: its question is let be.
    pub(crate) async fn send(
        &mut self,
        up: &mut Up,
        script: &Cmd,
        within: Duration,
    ) -> Result<Value, CallError> {
        self.owes = true;
        let (sent, question) = send_both(&self.link, self.level, up, script, within).await;
        self.question = Some(question);
        self.pool.note(&sent);
        match &sent {
            Ok(_) => self.settle(),
            Err(CallError::Answered(_)) => self.let_be().await,
            Err(_) => {}
        }
        sent
    }

    fn settle(&mut self) {
        if !std::mem::replace(&mut self.settles, true) {
            self.pool.settling.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Nothing was taken, so nobody needs to have it.
    pub(crate) async fn let_be(&mut self) {
        if let Some(question) = self.question.take() {
            self.owes = matches!(timeout(GRACE, question.answer).await, Err(_) | Ok(Err(CallError::Silent)));
        }
    }

    /// So much of the time that there was went by before this connection was free, if that was most of it.
    pub(crate) fn queued(&self) -> Duration {
        self.queued
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
        let online = answer.ok().as_ref().map(level::online);
        let Some(online) = online.filter(|online| *online > 0) else {
            return level::nobody(online.is_some());
        };
        self.owes = true;
        let left = left();
        let answer = self.link.send(&mut up, &level::wait(online, left), left).await;
        self.note(&answer);
        level::replicas(online, answer.ok().as_ref())
    }

    fn note(&mut self, answer: &Result<Value, CallError>) {
        self.pool.note(answer);
        self.owes = matches!(answer, Err(CallError::Silent));
        if let Err(error) = answer {
            tracing::debug!(level = %self.level, ?error, "who has it is not known");
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.settles {
            self.pool.settling.fetch_sub(1, Ordering::Relaxed);
        }
        if !self.owes {
            self.pool.put_back(Idle { link: self.link.clone(), works: self.works });
        }
    }
}

/// The script and the question behind it; once the script is answered.
async fn send_both(
    link: &Link,
    level: Durability,
    up: &mut Up,
    script: &Cmd,
    within: Duration,
) -> (Result<Value, CallError>, Question) {
    let question = level::question(level, within);
    let (behind, mut own) = (link.clone(), up.clone());
    let answer = async move { behind.send(&mut own, &question, within).await };
    let mut question = Question { up: up.clone(), answer: Box::pin(answer) };
    let mut script = std::pin::pin!(link.send(up, script, within));
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
    (sent, question)
}

fn unasked(reason: &str) -> Failure {
    Failure::unreachable(format!("the connection could not be tried: {reason}"))
}
