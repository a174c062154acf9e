//! One decision on its way to one server: its script, its "not after", its repetition, its three outcomes.

use std::time::Duration;

use lockkeeper_core::{Answer, Error, ErrorKind, Keys, Refusal, Timestamp, Uptime, WrongType};
use redis::{Cmd, Value};

use crate::cluster::{Errand, Manner, Step};
use crate::error::{CallError, malformed};
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

/// Over which connection it goes.
pub(crate) enum Way<'a> {
    Lane(Lane),
    /// One that is held for this step, with the question who else has it behind the script.
    Held(&'a mut Held),
}

impl Way<'_> {
    fn link<'a>(&'a self, node: &'a Node) -> &'a Link {
        match self {
            Self::Lane(lane) => node.link(*lane),
            Self::Held(held) => held.link(),
        }
    }
}

impl<'a, D: Port> Attempt<'a, D> {
    /// To be answered by `ends`.
    pub(crate) fn new(lane: Lane, at: &'a Keys, decision: D, ends: Uptime) -> Self {
        Self {
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

    /// On the one server that there is.
    pub(crate) async fn run(self, node: &Node) -> Result<Answer<D::Reply>, Error> {
        alone(node, self.ends, self).await
    }

    pub(crate) async fn try_once(
        &mut self,
        node: &Node,
        way: &mut Way<'_>,
        manner: Manner,
    ) -> Result<Step<Answer<D::Reply>>, Error> {
        let patience = self.left(node).min(manner.patience);
        let mut up = way.link(node).up(patience).await.map_err(|failure| failure.into_error(D::NAME))?;
        if self.run_id.is_some_and(|run_id| up.info().run_id != run_id) {
            return Err(Error::new(ErrorKind::Unreachable, D::NAME, "the server was restarted"));
        }
        match way {
            Way::Lane(lane) if !up.info().scripts => return self.send_plain(node, *lane, &mut up).await,
            Way::Lane(_) => {}
            Way::Held(held) => held.check(&mut up, D::NAME, self.left(node)).await?,
        }
        self.send(node, way, &mut up, manner).await
    }

    /// By plain commands, where the caller chose that. Nothing bounds when they are run: there is no "not after".
    async fn send_plain(
        &mut self,
        node: &Node,
        lane: Lane,
        up: &mut Up,
    ) -> Result<Step<Answer<D::Reply>>, Error> {
        let native = match self.decision.native() {
            Some(native) if node.allows_plain() => native,
            _ => return Err(native::forbidden::<D>(D::NAME)),
        };
        let at = node.clock().now();
        let mut plain = Plain { node, lane, up, ends: self.ends, at };
        let done = plain.run::<D>(self.at, native.step).await;
        self.sent += 1;
        match done {
            Ok(done) => {
                let reply = (native.read)(done).ok_or_else(|| malformed(D::NAME, "of another step"))?;
                Ok(Step::Done(Answer { reply, at: plain.at, sent: self.sent }))
            }
            Err(NotDone::Refused(error)) => Err(error),
            Err(NotDone::Call(error)) => self.not_done(error),
        }
    }

    /// A copy that has no reply.
    fn not_done(&mut self, error: CallError) -> Result<Step<Answer<D::Reply>>, Error> {
        match error {
            CallError::Answered(words) => {
                self.sent -= 1;
                Ok(Step::Refused(words))
            }
            CallError::Broken(reason) if D::REPEATABLE && self.in_doubt.is_none() => {
                self.in_doubt = Some(CallError::Broken(reason));
                Ok(Step::Again)
            }
            error => Err(unanswered(D::NAME, &error, self.latest)),
        }
    }

    /// Sends one copy, stamped with what is left of the limit in the server's time (invariant 5 relies on it).
    async fn send(
        &mut self,
        node: &Node,
        way: &mut Way<'_>,
        up: &mut Up,
        manner: Manner,
    ) -> Result<Step<Answer<D::Reply>>, Error> {
        let clock = node.clock();
        let sent_at = clock.uptime();
        let left = self.ends.since(sent_at);
        if left.is_zero() {
            return Err(Error::new(ErrorKind::Unreachable, D::NAME, "no time was left to send it"));
        }
        self.decision.set_not_after(clock.at(sent_at).after(left));
        self.latest = self.latest.max(self.decision.not_after());
        self.sent += 1;
        match self.run_script(node, way, up, manner, left).await {
            Ok(value) => self.read(node, value, sent_at),
            Err(error) => self.not_done(error),
        }
    }

    /// By hash; by source where the server does not know the hash (a restart, `SCRIPT FLUSH`) or the command. Looking
    /// goes by the read-only commands first, which a paused server lets pass.
    async fn run_script(
        &self,
        node: &Node,
        way: &mut Way<'_>,
        up: &mut Up,
        manner: Manner,
        within: Duration,
    ) -> Result<Value, CallError> {
        if let Way::Held(held) = way {
            if manner.asking {
                // Nobody else sends anything on it in between.
                held.link().send(up, &redis::cmd("ASKING"), within).await?;
            }
            // By source at once: after a hash that is not known, the question behind it could hold the connection.
            return held.send(up, &self.command("EVAL", D::SCRIPT.source), within).await;
        }
        let ways: &[(&str, &str)] = &[
            ("EVALSHA_RO", D::SCRIPT.hash()),
            ("EVAL_RO", D::SCRIPT.source),
            ("EVALSHA", D::SCRIPT.hash()),
            ("EVAL", D::SCRIPT.source),
        ];
        let read_only = D::SCRIPT.read_only && up.info().read_only_scripts;
        let (first, rest) = if read_only { (ways[0], &ways[1..]) } else { (ways[2], &ways[3..]) };
        let link = way.link(node);
        let mut result = link.send_in(manner, up, &self.command(first.0, first.1), within).await;
        for (name, script) in rest {
            match &result {
                Err(CallError::Answered(words)) if words.asks_for_another_way() => {
                    let left = self.left(node);
                    result = link.send_in(manner, up, &self.command(name, script), left).await;
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

    fn read(&mut self, node: &Node, value: Value, sent_at: Uptime) -> Result<Step<Answer<D::Reply>>, Error> {
        let malformed = |Malformed(what)| malformed(D::NAME, what);
        let mut fields = Fields::of(value).map_err(malformed)?;
        let at = fields.timestamp().map_err(malformed)?;
        node.clock().observe(sent_at, at);
        let status = fields.bytes().map_err(malformed)?;
        match &status[..] {
            b"late" if self.was_late || self.left(node).is_zero() => {
                Err(Error::new(ErrorKind::TooLate, D::NAME, ""))
            }
            b"late" => {
                self.was_late = true;
                self.sent -= 1;
                Ok(Step::Again)
            }
            b"wrongtype" => {
                let index = fields.index().map_err(malformed)?;
                let side = fields.int().map_err(malformed)? != 0;
                Err(WrongType { index, side }.into_error::<D>(self.at))
            }
            status => {
                let reply = self.decision.read(at, status, fields).map_err(malformed)?;
                Ok(Step::Done(Answer { reply, at, sent: self.sent }))
            }
        }
    }

    fn left(&self, node: &Node) -> Duration {
        self.ends.since(node.clock().uptime())
    }
}

impl<D: Port> Errand for Attempt<'_, D> {
    type Done = Answer<D::Reply>;
    const NAME: &'static str = D::NAME;

    async fn try_on(&mut self, node: &Node, manner: Manner) -> Result<Step<Self::Done>, Error> {
        self.try_once(node, &mut Way::Lane(self.lane), manner).await
    }

    /// "Not applied" is the answer, unless an earlier copy is still in doubt. Names the keys.
    fn conclude(&self, error: Error) -> Error {
        let error = match &self.in_doubt {
            Some(doubt) if !error.may_have_been_applied() => unanswered(D::NAME, doubt, self.latest),
            _ => error,
        };
        if error.key().is_some() { error } else { error.with_key(self.at) }
    }
}

/// Runs `errand` on the one server that there is; with Sentinels, on whichever takes its place before it `ends`.
pub(crate) async fn alone<E: Errand>(node: &Node, ends: Uptime, mut errand: E) -> Result<E::Done, Error> {
    loop {
        let error = match errand.try_on(node, Manner::default()).await {
            Ok(Step::Done(done)) => return Ok(done),
            Ok(Step::Again) => continue,
            Ok(Step::Refused(words)) => words.into_error(E::NAME),
            Err(error) => error,
        };
        let may_wait = node.lookout().is_some() && ends.since(node.clock().uptime()) > FAILOVER_PAUSE;
        if !may_wait || !passes_with_a_failover(error.kind()) {
            return Err(errand.conclude(error));
        }
        tokio::time::sleep(FAILOVER_PAUSE).await;
    }
}

/// The server is no primary (any more), or not yet: nothing was applied, and the one that is will be found.
fn passes_with_a_failover(kind: ErrorKind) -> bool {
    let ErrorKind::Refused(refusal) = kind else { return false };
    matches!(refusal, Refusal::ReadOnly | Refusal::PrimaryDown | Refusal::Loading)
}

pub(crate) fn unanswered(operation: &'static str, error: &CallError, not_after: Option<Timestamp>) -> Error {
    let detail = match error {
        CallError::Broken(reason) => format!("the connection broke before the answer: {reason}"),
        CallError::Silent | CallError::Answered(_) => "no answer within the limit".to_owned(),
    };
    Error::new(ErrorKind::OutcomeUnknown { not_after }, operation, detail)
}
