//! One decision on its way to one server: its script, its "not after", its repetition, its three outcomes.

use std::time::Duration;

use lockkeeper_core::{Answer, Error, ErrorKind, Keys, Refusal, Timestamp, Uptime, WrongType};
use redis::{Cmd, Value};

use crate::error::{CallError, ServerWords, malformed};
use crate::lasting::Held;
use crate::link::{Link, Up};
use crate::native::{self, NotDone, Plain};
use crate::node::{Lane, Node};
use crate::port::Port;
use crate::reply::{Fields, Malformed};

/// What a command usually has room in, so that it does not grow word by word.
const USUAL_WORDS: usize = 32;
const USUAL_BYTES: usize = 256;

/// Before what a demoted primary refused is sent again.
const FAILOVER_PAUSE: Duration = Duration::from_millis(20);

/// One decision on its way: sent once, and again only where that is safe.
pub(crate) struct Attempt<'a, D> {
    node: &'a Node,
    way: Way<'a>,
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

/// Over which connection it goes.
pub(crate) enum Way<'a> {
    Lane(Lane),
    /// One that is held for this step, with the question who else has it behind the script.
    Held(&'a mut Held),
}

/// What to do after one copy was sent.
enum Next<R> {
    Done(Answer<R>),
    Again,
}

impl<'a, D: Port> Attempt<'a, D> {
    /// To be answered by `ends`.
    pub(crate) fn new(node: &'a Node, way: Way<'a>, at: &'a Keys, decision: D, ends: Uptime) -> Self {
        Self { node, way, at, decision, ends, sent: 0, latest: None, in_doubt: None, was_late: false }
    }

    pub(crate) async fn run(mut self) -> Result<Answer<D::Reply>, Error> {
        loop {
            match self.try_once().await {
                Ok(Next::Done(answer)) => return Ok(answer),
                Ok(Next::Again) => {}
                Err(error) => return Err(self.in_the_light_of_doubt(error)),
            }
        }
    }

    async fn try_once(&mut self) -> Result<Next<D::Reply>, Error> {
        let mut up = self.link().up(self.left()).await.map_err(|failure| failure.into_error(D::NAME))?;
        if !up.info().scripts {
            return self.send_plain(&mut up).await;
        }
        let left = self.left();
        if let Way::Held(held) = &mut self.way {
            held.check(&mut up, D::NAME, left).await?;
        }
        self.send(&mut up).await
    }

    /// By plain commands, where the caller chose that. Nothing bounds when they are run: there is no "not after".
    async fn send_plain(&mut self, up: &mut Up) -> Result<Next<D::Reply>, Error> {
        let (native, lane) = match (self.decision.native(), &self.way) {
            (Some(native), Way::Lane(lane)) if self.node.allows_plain() => (native, *lane),
            _ => return Err(native::forbidden::<D>(D::NAME)),
        };
        let at = self.node.clock().now();
        let mut plain = Plain { node: self.node, lane, up, ends: self.ends, at };
        let done = plain.run::<D>(self.at, native.step).await;
        self.sent += 1;
        match done {
            Ok(done) => {
                let reply = (native.read)(done).ok_or_else(|| malformed(D::NAME, "of another step"))?;
                Ok(Next::Done(Answer { reply, at: plain.at, sent: self.sent }))
            }
            Err(NotDone::Refused(error)) => Err(error),
            Err(NotDone::Call(error)) => self.not_done(error),
        }
    }

    /// A copy that has no reply.
    fn not_done(&mut self, error: CallError) -> Result<Next<D::Reply>, Error> {
        match error {
            CallError::Answered(words) => {
                self.sent -= 1;
                Err(words.into_error(D::NAME))
            }
            CallError::Broken(reason) if D::REPEATABLE && self.in_doubt.is_none() => {
                self.in_doubt = Some(CallError::Broken(reason));
                Ok(Next::Again)
            }
            error => Err(unanswered(D::NAME, &error, self.latest)),
        }
    }

    /// Sends one copy, stamped with what is left of the limit in the server's time (invariant 5 relies on it).
    async fn send(&mut self, up: &mut Up) -> Result<Next<D::Reply>, Error> {
        let clock = self.node.clock();
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
            Err(CallError::Answered(words)) if self.waits_for_a_primary(&words) => {
                self.sent -= 1;
                tokio::time::sleep(FAILOVER_PAUSE).await;
                Ok(Next::Again)
            }
            Err(error) => self.not_done(error),
        }
    }

    /// By hash; by source where the server does not know the hash (a restart, `SCRIPT FLUSH`) or the command. Looking
    /// goes by the read-only commands first, which a paused server lets pass.
    async fn run_script(&mut self, up: &mut Up, within: Duration) -> Result<Value, CallError> {
        if matches!(self.way, Way::Held(_)) {
            // By source at once: after a hash that is not known, the question behind it could hold the connection.
            let command = self.command("EVAL", D::SCRIPT.source);
            if let Way::Held(held) = &mut self.way {
                return held.send(up, &command, within).await;
            }
        }
        let ways: &[(&str, &str)] = &[
            ("EVALSHA_RO", D::SCRIPT.hash()),
            ("EVAL_RO", D::SCRIPT.source),
            ("EVALSHA", D::SCRIPT.hash()),
            ("EVAL", D::SCRIPT.source),
        ];
        let read_only = D::SCRIPT.read_only && up.info().read_only_scripts;
        let (first, rest) = if read_only { (ways[0], &ways[1..]) } else { (ways[2], &ways[3..]) };
        let mut result = self.link().send(up, &self.command(first.0, first.1), within).await;
        for (name, script) in rest {
            match &result {
                Err(CallError::Answered(words)) if words.asks_for_another_way() => {
                    result = self.link().send(up, &self.command(name, script), self.left()).await;
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
        self.node.clock().observe(sent_at, at);
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

    fn link(&self) -> &Link {
        match &self.way {
            Way::Lane(lane) => self.node.link(*lane),
            Way::Held(held) => held.link(),
        }
    }

    /// Another server takes over from the one that said this. On a held connection whoever acquires tries again by
    /// themselves: it has been asked who else has the write.
    fn waits_for_a_primary(&self, words: &ServerWords) -> bool {
        matches!(self.way, Way::Lane(_))
            && self.node.lookout().is_some()
            && passes_with_a_failover(words.refusal())
            && self.left() > FAILOVER_PAUSE
    }

    fn left(&self) -> Duration {
        self.ends.since(self.node.clock().uptime())
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

/// The server is no primary (any more), or not yet: nothing was applied, and the one that is will be found.
fn passes_with_a_failover(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::ReadOnly | Refusal::PrimaryDown | Refusal::Loading)
}

pub(crate) fn unanswered(operation: &'static str, error: &CallError, not_after: Option<Timestamp>) -> Error {
    let detail = match error {
        CallError::Broken(reason) => format!("the connection broke before the answer: {reason}"),
        CallError::Silent | CallError::Answered(_) => "no answer within the limit".to_owned(),
    };
    Error::new(ErrorKind::OutcomeUnknown { not_after }, operation, detail)
}
