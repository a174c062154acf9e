//! What each level asks the server, and what the answers mean.

use lockkeeper_core::lock::{Acknowledging, Durability, Shortfall};
use lockkeeper_core::{Error, ErrorKind, Refusal};
use redis::{Cmd, Value, cmd};
use std::time::Duration;

use crate::error::ServerWords;

/// `WAIT` and `WAITAOF` are to end so much before the limit of the step: a server looks at their time-outs only every 100 ms
/// when nothing else happens, and how many acknowledged it is worth knowing.
const MARGIN: Duration = Duration::from_millis(125);

/// Who acknowledged, and who should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) acknowledged: u32,
    pub(crate) wanted: u32,
    pub(crate) of: Acknowledging,
    /// The question was answered.
    pub(crate) is_known: bool,
}

impl Count {
    pub(crate) fn shortfall(self, queued: Duration) -> Option<Shortfall> {
        let Self { acknowledged, wanted, of, is_known } = self;
        (acknowledged < wanted).then_some(Shortfall { acknowledged, wanted, of, is_known, queued })
    }
}

/// Commands, a bit for each.
pub(super) type Commands = u8;
const WAIT: Commands = 1;
const ROLE: Commands = 1 << 1;
const WAITAOF: Commands = 1 << 2;

/// What is sent right behind the script. For all replicas, the question who they are: that depends on the moment.
pub(super) fn question(level: Durability, left: Duration) -> Cmd {
    match level {
        Durability::AllReplicas => cmd("ROLE"),
        Durability::Accepted => wait(0, left),
        Durability::Replicas(count) => wait(count.get(), left),
        Durability::Fsync { replicas } => wait_aof(replicas.map_or(0, |count| count.get()), left),
    }
}

pub(super) fn wait(replicas: u32, left: Duration) -> Cmd {
    let mut command = cmd("WAIT");
    command.arg(replicas).arg(milliseconds(left));
    command
}

fn wait_aof(replicas: u32, left: Duration) -> Cmd {
    let mut command = cmd("WAITAOF");
    command.arg(1).arg(replicas).arg(milliseconds(left));
    command
}

/// What is left but for the margin, or half of it. Never zero, which would be for ever.
fn milliseconds(left: Duration) -> u64 {
    let wait = left.saturating_sub(MARGIN.min(left / 2));
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Commands that ask for nothing, sent beforehand to see whether they may be used.
pub(super) fn probes(level: Durability) -> Vec<(Commands, Cmd)> {
    let shortest = Duration::from_millis(1);
    match level {
        Durability::AllReplicas => vec![(WAIT, wait(0, shortest)), (ROLE, cmd("ROLE"))],
        Durability::Accepted | Durability::Replicas(_) => vec![(WAIT, wait(0, shortest))],
        // Where nothing was written on this connection yet, the disk has it.
        Durability::Fsync { .. } => vec![(WAITAOF, wait_aof(0, shortest))],
    }
}

/// The script itself may not be run: where plain locks will do, none of them lasts.
pub(super) fn without_scripts(level: Durability, operation: &'static str) -> Error {
    let detail = format!(
        "{level} was asked for, which needs a script to wait behind, and this server or user may not run scripts (EVAL); \
         nothing was taken"
    );
    Error::new(ErrorKind::Unsupported, operation, detail)
}

/// What a refused probe means: nothing was taken.
pub(super) fn refused(level: Durability, words: &ServerWords, operation: &'static str) -> Error {
    let is_replica = words.text().contains("replica instance") || words.text().contains("slave instance");
    let refusal = if is_replica { Refusal::ReadOnly } else { words.refusal() };
    let kind = match refusal {
        Refusal::Other | Refusal::NoPermission => ErrorKind::Unsupported,
        refusal => ErrorKind::Refused(refusal),
    };
    let detail = format!("{level} was asked for, and this server or user has no {}", words_of(level));
    Error::new(kind, operation, format!("{detail}: {}; nothing was taken", words.text()))
}

fn words_of(level: Durability) -> &'static str {
    match level {
        Durability::AllReplicas => "WAIT or ROLE",
        Durability::Accepted | Durability::Replicas(_) => "WAIT",
        Durability::Fsync { .. } => "usable WAITAOF (Redis 7.2, Valkey, with appendonly yes)",
    }
}

/// How many replicas a primary lists as online, from `ROLE`.
pub(super) fn online(role: &Value) -> u32 {
    match role {
        Value::Array(fields) => match fields.as_slice() {
            [_, _, Value::Array(replicas)] => u32::try_from(replicas.len()).unwrap_or(u32::MAX),
            _ => 0,
        },
        _ => 0,
    }
}

/// Reads the answer of [`question`]; `None`: there was none, and nobody is known to have it.
pub(super) fn count(level: Durability, answer: Option<&Value>) -> Count {
    match level {
        Durability::Fsync { replicas } => disks(replicas.map_or(0, |count| count.get()), answer),
        Durability::Replicas(wanted) => replicas(wanted.get(), answer),
        Durability::Accepted | Durability::AllReplicas => replicas(0, answer),
    }
}

/// Reads the answer of `WAIT`.
pub(super) fn replicas(wanted: u32, answer: Option<&Value>) -> Count {
    let (acknowledged, is_known) = (answer.map_or(0, number), answer.is_some());
    Count { acknowledged, wanted, of: Acknowledging::Replicas, is_known }
}

/// The primary lists no replica that is online; or it is not known whether it does.
pub(super) fn nobody(is_known: bool) -> Count {
    let of = if is_known { Acknowledging::NoReplica } else { Acknowledging::Replicas };
    Count { acknowledged: 0, wanted: 1, of, is_known }
}

/// The primary's disk is one of them, and no replica's disk stands for it.
fn disks(replicas: u32, answer: Option<&Value>) -> Count {
    let (own, others) = match answer {
        Some(Value::Array(fields)) => match fields.as_slice() {
            [own, others] => (number(own), number(others)),
            _ => (0, 0),
        },
        _ => (0, 0),
    };
    Count {
        acknowledged: own.min(1).saturating_add(others.min(replicas)),
        wanted: replicas.saturating_add(1),
        of: Acknowledging::Disks,
        is_known: answer.is_some(),
    }
}

fn number(value: &Value) -> u32 {
    match value {
        Value::Int(number) => u32::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::lock::ReplicaCount;

    use super::*;

    fn met(level: Durability, answer: &Value) -> bool {
        count(level, Some(answer)).shortfall(Duration::ZERO).is_none()
    }

    #[test]
    fn a_level_is_met_by_as_many_as_it_asks_for_and_by_no_answer_never() {
        let two = Durability::replicas(2).unwrap();
        assert!(met(two, &Value::Int(2)) && met(two, &Value::Int(3)));
        for unmet in [Value::Int(1), Value::Int(-1), Value::Nil, Value::Array(vec![Value::Int(2)])] {
            assert!(!met(two, &unmet), "{unmet:?}");
        }
        let nothing = Count { acknowledged: 0, wanted: 2, of: Acknowledging::Replicas, is_known: false };
        assert_eq!(count(two, None), nothing);
    }

    #[test]
    fn no_replicas_disk_stands_for_the_primarys() {
        let level = Durability::Fsync { replicas: Some(ReplicaCount::new(1).unwrap()) };
        let answer = |own, others| Value::Array(vec![Value::Int(own), Value::Int(others)]);
        assert!(met(level, &answer(1, 1)) && met(Durability::fsync(), &answer(1, 0)));
        for unmet in [answer(0, 2), answer(1, 0), Value::Int(2), Value::Array(Vec::new())] {
            assert!(!met(level, &unmet), "{unmet:?}");
        }
        assert!(!met(Durability::fsync(), &answer(0, 5)));
    }

    #[test]
    fn waiting_ends_before_the_limit_and_is_never_for_ever() {
        for (left, wait) in [(0, 1), (1, 1), (100, 50), (2000, 1875)] {
            assert_eq!(milliseconds(Duration::from_millis(left)), wait, "{left}");
        }
    }

    #[test]
    fn only_a_primary_has_replicas() {
        let replica = Value::Array(vec![Value::Int(1)]);
        let primary = |replicas| Value::Array(vec![Value::Nil, Value::Int(9), Value::Array(replicas)]);
        assert_eq!(online(&primary(vec![replica.clone(), replica])), 2);
        assert_eq!(online(&primary(Vec::new())), 0);
        let five = Value::Array(vec![Value::Nil; 5]);
        assert_eq!((online(&five), online(&Value::Nil)), (0, 0));
        let words = |is_known| {
            nobody(is_known).shortfall(Duration::ZERO).map(|it| it.into_error("acquire").to_string())
        };
        assert!(words(true).is_some_and(|text| text.contains("the primary lists no online replica")));
        assert!(words(false).is_some_and(|text| text.contains("unknown how many")));
    }
}
