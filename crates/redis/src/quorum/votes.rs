//! Sending to several servers at once, and what an answer of one says.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use lockkeeper_core::{Answer, Error, ErrorKind, Keys, Timestamp};

use super::Shared;
use super::ledger::Nodes;
use super::roll::Roll;
use crate::node::Lane;
use crate::port::Port;

/// One server's answer.
pub(super) type Result1<R> = (usize, Result<Answer<R>, Error>);
/// A request under way to one server.
pub(super) type Sent<R> = Pin<Box<dyn Future<Output = Result1<R>> + Send>>;
/// Requests under way.
pub(super) type Flight<R> = FuturesUnordered<Sent<R>>;

/// What a request that takes something has done at one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    /// The server may keep the token.
    pub(super) holds: bool,
    /// Until then, by its own clock, a copy of the request may take effect.
    pub(super) doubt: Option<Timestamp>,
}

impl Effect {
    pub(super) fn of<R>(
        result: &Result<Answer<R>, Error>,
        within: Duration,
        took: impl FnOnce(&R) -> bool,
    ) -> Self {
        match result {
            Ok(answer) => {
                let doubt = (answer.sent > 1).then(|| answer.at.after(within));
                Self { holds: took(&answer.reply) || doubt.is_some(), doubt }
            }
            Err(error) => match error.kind() {
                ErrorKind::OutcomeUnknown { not_after } => Self { holds: true, doubt: not_after },
                _ => Self { holds: error.may_have_been_applied(), doubt: None },
            },
        }
    }
}

impl Shared {
    /// Until when a request that was sent by now, and that nobody waits for any more, may take effect at `node`.
    pub(super) fn doubt_of_abandoned(&self, node: usize, within: Duration) -> Option<Timestamp> {
        self.node(node).map(|node| node.on(Lane::Command).server_now().after(within))
    }

    /// One request to one server; `run_id`: only to this run of it.
    pub(super) fn send<D: Port>(
        self: &Arc<Self>,
        lane: Lane,
        node: usize,
        at: &Keys,
        decision: D,
        within: Duration,
        run_id: Option<Arc<str>>,
    ) -> Sent<D::Reply> {
        let (shared, keys) = (self.clone(), at.clone());
        Box::pin(async move {
            let Some(store) = shared.node(node).map(|node| node.on(lane)) else {
                return (node, Err(Error::new(ErrorKind::Unreachable, D::NAME, "no such server")));
            };
            let result = match &run_id {
                Some(run_id) => store.apply_of_run(&keys, decision, within, run_id).await,
                None => lockkeeper_core::Apply::apply(store, &keys, decision, within).await,
            };
            (node, result)
        })
    }

    /// The same to all that vote.
    pub(super) fn send_all<D: Port>(
        self: &Arc<Self>,
        lane: Lane,
        at: &Keys,
        decision: &D,
        within: Duration,
        roll: &Roll,
    ) -> Flight<D::Reply> {
        self.send_to(roll.voters(), lane, at, decision, within, roll)
    }

    /// The same to those of `nodes` that vote.
    pub(super) fn send_to<D: Port>(
        self: &Arc<Self>,
        nodes: Nodes,
        lane: Lane,
        at: &Keys,
        decision: &D,
        within: Duration,
        roll: &Roll,
    ) -> Flight<D::Reply> {
        let voters = nodes.iter().filter_map(|node| Some((node, roll.runs.get(node)?.clone()?)));
        voters.map(|(node, run)| self.send(lane, node, at, decision.clone(), within, Some(run))).collect()
    }
}

/// What several servers could not do, in one error: the most telling of theirs.
pub(super) fn most_telling(
    operation: &'static str,
    errors: &[(usize, Error)],
    names: impl Fn(usize) -> String,
    said: &str,
) -> Error {
    let weight = |error: &Error| match error.kind() {
        ErrorKind::WrongType => 0,
        ErrorKind::BadArgument | ErrorKind::Unsupported => 1,
        ErrorKind::Refused(_) => 2,
        _ => 3,
    };
    let Some((node, error)) = errors.iter().min_by_key(|(_, error)| weight(error)) else {
        return Error::new(ErrorKind::Unreachable, operation, said);
    };
    if weight(error) == 0 {
        return error.clone();
    }
    let detail = format!("{said}; {}: {}", names(*node), error.detail());
    let kind = match error.kind() {
        ErrorKind::OutcomeUnknown { .. } | ErrorKind::Protocol | ErrorKind::TooLate => ErrorKind::Unreachable,
        kind => kind,
    };
    Error::new(kind, operation, detail)
}
