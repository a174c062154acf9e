//! One decision on its way to one server: its script, its "not after", its repetition, its three outcomes.

use std::time::Duration;

use lockkeeper_core::{Answer, Error, ErrorKind, Keys, Timestamp, Uptime, WrongType};
use redis::{Cmd, Value};

use crate::error::{CallError, malformed};
use crate::link::{Link, Up};
use crate::node::{Lane, Node};
use crate::port::Port;
use crate::reply::{Fields, Malformed};

/// What a command usually has room in, so that it does not grow word by word.
const USUAL_WORDS: usize = 32;
const USUAL_BYTES: usize = 256;

/// One decision on its way: sent once, and again only where that is safe.
pub(crate) struct Attempt<'a, D> {
    node: &'a Node,
    lane: Lane,
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
    /// The only run of the server that may be asked.
    run_id: Option<&'a str>,
}

/// What to do after one copy was sent.
enum Next<R> {
    Done(Answer<R>),
    Again,
}

impl<'a, D: Port> Attempt<'a, D> {
    /// To be answered by `ends`.
    pub(crate) fn new(node: &'a Node, lane: Lane, at: &'a Keys, decision: D, ends: Uptime) -> Self {
        Self {
            node,
            lane,
            at,
            decision,
            ends,
            sent: 0,
            latest: None,
            in_doubt: None,
            was_late: false,
            run_id: None,
        }
    }

    /// Sends it only on a connection to this run of the server. A restart breaks the connection, so a server that may have
    /// forgotten something is not asked.
    pub(crate) fn of_run(mut self, run_id: &'a str) -> Self {
        self.run_id = Some(run_id);
        self
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
        if self.run_id.is_some_and(|run_id| up.info().run_id != run_id) {
            return Err(Error::new(ErrorKind::Unreachable, D::NAME, "the server was restarted"));
        }
        if !up.info().scripts {
            return Err(scripts_forbidden::<D>());
        }
        self.send(&mut up).await
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
        self.node.link(self.lane)
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

pub(crate) fn unanswered(operation: &'static str, error: &CallError, not_after: Option<Timestamp>) -> Error {
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
