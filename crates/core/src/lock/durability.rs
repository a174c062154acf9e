//! How durable a step must be before it counts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::acquire::{Acquire, AcquireReply};
use super::permit::{AcquirePermit, AcquirePermitReply, RenewPermit, RenewPermitReply};
use super::renew::{Renew, RenewReply};
use super::swap::{Swap, SwapReply};
use crate::decision::{Answer, Decision};
use crate::error::{Error, ErrorKind};

/// The most replicas that a level may ask for.
pub const MAX_REPLICAS: u32 = 100;

/// Who must have a step that starts or lengthens a lease, before it counts.
///
/// Whatever the level, the primary decides; a level says who else must have acknowledged that decision when the caller
/// is told of it. It makes a loss less likely, never impossible: see each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The primary has it in memory. A failover, or a restart without its last writes, may lose the lock.
    #[default]
    Accepted,
    /// So many replicas have it in memory, too. A failover to **another** replica may lose the lock.
    Replicas(ReplicaCount),
    /// Every replica that the primary lists as online has it, and there is one at least. A failover to a replica that
    /// was not online may lose the lock.
    AllReplicas,
    /// It is on the primary's disk (and, if asked, on that of so many replicas), as far as the disk can be trusted. A failover
    /// to a replica that does not have it may lose the lock.
    Fsync {
        /// How many replicas must have it on disk.
        replicas: Option<ReplicaCount>,
    },
}

/// A number of replicas: 1 to [`MAX_REPLICAS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaCount(u32);

impl ReplicaCount {
    /// # Errors
    /// Zero, or more than [`MAX_REPLICAS`].
    pub fn new(count: u32) -> Result<Self, Error> {
        if (1..=MAX_REPLICAS).contains(&count) {
            return Ok(Self(count));
        }
        Err(bad(&format!("{count} replicas: at least 1, at most {MAX_REPLICAS}")))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Durability {
    /// So many replicas.
    ///
    /// # Errors
    /// Zero, or more than [`MAX_REPLICAS`].
    pub fn replicas(count: u32) -> Result<Self, Error> {
        ReplicaCount::new(count).map(Self::Replicas)
    }

    /// On the primary's disk.
    pub const fn fsync() -> Self {
        Self::Fsync { replicas: None }
    }

    /// Nothing is asked beyond the primary's word.
    pub fn is_accepted(self) -> bool {
        self == Self::Accepted
    }
}

/// As it is written: `accepted`, `replicas=2`, `replicas=all`, `fsync`, `fsync+replicas=1`.
impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Replicas(count) => write!(f, "replicas={}", count.get()),
            Self::AllReplicas => f.write_str("replicas=all"),
            Self::Fsync { replicas: None } => f.write_str("fsync"),
            Self::Fsync { replicas: Some(count) } => write!(f, "fsync+replicas={}", count.get()),
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "accepted" => Ok(Self::Accepted),
            "fsync" => Ok(Self::fsync()),
            "replicas=all" => Ok(Self::AllReplicas),
            "fsync+replicas=all" => Err(bad("fsync asks for a number of replicas, not for all")),
            _ => {
                if let Some(count) = text.strip_prefix("fsync+replicas=") {
                    return Ok(Self::Fsync { replicas: Some(parse_count(count)?) });
                }
                let count = text.strip_prefix("replicas=").ok_or_else(|| bad(&unknown(text)))?;
                parse_count(count).map(Self::Replicas)
            }
        }
    }
}

fn parse_count(text: &str) -> Result<ReplicaCount, Error> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = text.parse().ok().filter(|_| is_number);
    ReplicaCount::new(count.ok_or_else(|| bad(&format!("{} is no number of replicas", short(text))))?)
}

fn unknown(text: &str) -> String {
    format!("{} is none of accepted, replicas=N, replicas=all, fsync, fsync+replicas=N", short(text))
}

/// Quoted, and no longer than a message may be.
fn short(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    format!("{start:?}")
}

fn bad(detail: &str) -> Error {
    Error::bad_argument("durability", detail)
}

/// A decision that starts or lengthens a lease.
pub trait Leasing: Decision {
    /// This answer means a lease. A refusal has nothing that could be durable.
    fn is_lease(reply: &Self::Reply) -> bool;
}

impl Leasing for Acquire {
    fn is_lease(reply: &AcquireReply) -> bool {
        matches!(reply, AcquireReply::Granted(_))
    }
}

impl Leasing for Renew {
    fn is_lease(reply: &RenewReply) -> bool {
        matches!(reply, RenewReply::Renewed)
    }
}

impl Leasing for Swap {
    fn is_lease(reply: &SwapReply) -> bool {
        matches!(reply, SwapReply::Swapped(_))
    }
}

impl Leasing for AcquirePermit {
    fn is_lease(reply: &AcquirePermitReply) -> bool {
        matches!(reply, AcquirePermitReply::Granted { .. })
    }
}

impl Leasing for RenewPermit {
    fn is_lease(reply: &RenewPermitReply) -> bool {
        matches!(reply, RenewPermitReply::Renewed)
    }
}

/// What the primary decided, and whether the level was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lasting<R> {
    /// What the primary decided: it has been applied there, met or not.
    pub answer: Answer<R>,
    /// What is missing.
    pub shortfall: Option<Shortfall>,
}

/// A level that was not met in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// So many are known to have acknowledged it.
    pub acknowledged: u32,
    /// So many should have.
    pub wanted: u32,
    /// Who they are, for people.
    pub of: Acknowledging,
    /// The question was answered; else it is not known how many have it.
    pub is_known: bool,
    /// So much of the step's time went by before it had a connection, where that was most of it; else zero.
    pub queued: Duration,
}

/// Who acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledging {
    /// Replicas, in memory.
    Replicas,
    /// Disks: the primary's, and those of replicas.
    Disks,
    /// Nobody: all replicas were asked for, and the primary lists none that is online.
    NoReplica,
}

impl<R> Lasting<R> {
    /// The reply of `operation`, where a level that was not met is as good as none: a renewal, an extension.
    ///
    /// # Errors
    /// It was not met.
    pub fn reply(self, operation: &'static str) -> Result<R, Error> {
        match self.shortfall {
            None => Ok(self.answer.reply),
            Some(shortfall) => Err(shortfall.into_error(operation)),
        }
    }

    /// Nothing is missing.
    pub fn met(answer: Answer<R>) -> Self {
        Self { answer, shortfall: None }
    }
}

impl Shortfall {
    /// As the error of `operation`.
    pub fn into_error(self, operation: &'static str) -> Error {
        let Self { acknowledged, wanted, of, is_known, queued } = self;
        let who = match (of, wanted) {
            (Acknowledging::Replicas, 1) => "replica",
            (Acknowledging::Replicas, _) => "replicas",
            (Acknowledging::Disks, 1) => "disk",
            (Acknowledging::Disks, _) => "disks",
            (Acknowledging::NoReplica, _) => "online replicas",
        };
        let mut detail = match is_known {
            true if of == Acknowledging::NoReplica => "the primary lists no online replica".to_owned(),
            true => format!("{acknowledged} of {wanted} {who} acknowledged it in time"),
            false => format!("it is unknown how many of {wanted} {who} have it: no answer to that in time"),
        };
        if !queued.is_zero() {
            let waited = queued.as_millis();
            detail.push_str(&format!("; {waited} ms of that went by before a connection was free"));
        }
        Error::new(ErrorKind::NotDurable { acknowledged, wanted }, operation, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_read_as_it_is_written() {
        for text in ["accepted", "replicas=1", "replicas=100", "replicas=all", "fsync", "fsync+replicas=2"] {
            assert_eq!(text.parse::<Durability>().unwrap().to_string(), text);
        }
        assert_eq!(Durability::default(), Durability::Accepted);
        assert!(Durability::Accepted.is_accepted() && !Durability::AllReplicas.is_accepted());
    }

    #[test]
    fn a_wrong_level_is_refused_by_name() {
        for (text, named) in [
            ("", "none of accepted"),
            ("Fsync", "none of accepted"),
            ("replicas", "none of accepted"),
            ("replicas=", "no number"),
            ("replicas=+1", "no number"),
            ("replicas=-1", "no number"),
            ("replicas=two", "no number"),
            ("replicas=99999999999", "no number"),
            ("replicas=0", "0 replicas"),
            ("replicas=101", "101 replicas"),
            ("fsync+replicas=0", "0 replicas"),
            ("fsync+replicas=all", "not for all"),
            ("fsync,replicas=1", "none of accepted"),
        ] {
            let error = text.parse::<Durability>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadArgument, "{text}");
            assert!(error.to_string().contains(named), "{text}: {error}");
        }
        let long = "x".repeat(10_000).parse::<Durability>().unwrap_err().to_string();
        assert!(long.len() < 300, "{}", long.len());
    }

    #[test]
    fn a_shortfall_says_how_many_of_how_many() {
        let shortfall = Shortfall {
            acknowledged: 1,
            wanted: 2,
            of: Acknowledging::Replicas,
            is_known: true,
            queued: Duration::ZERO,
        };
        let error = shortfall.into_error("acquire");
        assert_eq!(error.kind(), ErrorKind::NotDurable { acknowledged: 1, wanted: 2 });
        assert!(error.to_string().contains("1 of 2 replicas acknowledged it in time"), "{error}");
        assert!(error.is_transient() && !error.may_have_been_applied());
        assert!(!error.detail().contains("connection"), "{error}");
        let disk = Shortfall { acknowledged: 0, wanted: 1, of: Acknowledging::Disks, ..shortfall };
        let error = disk.into_error("renew");
        assert!(error.detail().starts_with("0 of 1 disk "), "{error}");
        let late = Shortfall { queued: Duration::from_millis(1900), ..disk }.into_error("renew");
        assert!(late.detail().contains("1900 ms of that went by before a connection"), "{late}");
        let unknown = Shortfall { is_known: false, ..disk }.into_error("renew");
        assert!(unknown.detail().contains("unknown how many of 1 disk"), "{unknown}");
    }
}
