//! Who may vote: what is known of each server, and why one may not.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::quorum::{Majority, Marker};
use lockkeeper_core::{Error, ErrorKind, Refusal, Uptime};

use super::ledger::Nodes;

/// So begins why a server of another majority is refused.
pub(super) const OTHER: &str = "its marker";

/// How a server of a majority stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeStanding {
    /// Nobody has asked it yet.
    Unknown,
    /// It cannot be reached, or not be asked: why.
    Away(String),
    /// It votes.
    Votes,
    /// It may have forgotten leases: for so long yet.
    Abstains(Duration),
    /// It cannot be a server of this majority: why.
    Refused(String),
}

/// What is known of a server of a majority.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeReport {
    /// `host:port`.
    pub address: String,
    /// Whether it votes.
    pub standing: NodeStanding,
    /// Changes when the server process does; empty where it is not known.
    pub run_id: String,
    /// For how long it has been up, by its own word.
    pub uptime: Duration,
    /// What it says of its memory.
    pub marker: Option<Marker>,
    /// It is refused, and that is a mistake in the list of servers: nothing that passes.
    pub is_misconfigured: bool,
    /// By how much its clock is ahead of this machine's, in microseconds.
    pub ahead_us: i64,
}

impl fmt::Display for NodeStanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("was not asked yet"),
            Self::Away(why) => write!(f, "cannot be asked: {why}"),
            Self::Votes => f.write_str("votes"),
            Self::Abstains(Duration::ZERO) => f.write_str(
                "abstains until it is marked, which takes a majority of servers that have the marker",
            ),
            Self::Abstains(left) => {
                let seconds = left.as_secs_f64();
                write!(f, "abstains for {seconds:.1} s: it may have forgotten leases")
            }
            Self::Refused(why) => write!(f, "is refused: {why}"),
        }
    }
}

/// One server, as it was found last.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) address: String,
    pub(super) standing: NodeStanding,
    pub(super) run_id: Arc<str>,
    pub(super) uptime: Duration,
    pub(super) marker: Option<Marker>,
    /// The marker of another majority that it had when it was seen with one last.
    pub(super) others: Option<Marker>,
    /// It is none of a majority's servers, whatever its marker says: a replica, a member of a cluster, a Sentinel.
    pub(super) is_unfit: bool,
    /// That it is refused is a mistake in the list of servers, and does not pass: a member of a cluster, a Sentinel, or
    /// another one's second name.
    pub(super) is_misconfigured: bool,
    /// It is away because it refuses the login.
    pub(super) refuses_login: bool,
    /// Since when it is known with this run and this marker, without a gap.
    pub(super) since: Uptime,
    /// When it was looked at last.
    pub(super) looked: Uptime,
}

impl Found {
    pub(super) fn new(address: String) -> Self {
        let (standing, run_id) = (NodeStanding::Unknown, Arc::from(""));
        Self {
            address,
            standing,
            run_id,
            uptime: Duration::ZERO,
            marker: None,
            others: None,
            is_unfit: false,
            is_misconfigured: false,
            refuses_login: false,
            since: Uptime::from_micros(0),
            looked: Uptime::from_micros(0),
        }
    }

    pub(super) fn is_there(&self) -> bool {
        !matches!(self.standing, NodeStanding::Away(_) | NodeStanding::Unknown) && !self.run_id.is_empty()
    }
}

/// Who may vote, at a moment. Made anew when anything of it changes.
#[derive(Clone, Debug)]
pub(super) struct Roll {
    /// The run that may be asked of each server that votes.
    pub(super) runs: Vec<Option<Arc<str>>>,
    pub(super) votes: usize,
    /// Every server was asked.
    pub(super) is_complete: bool,
    /// Servers that cannot be part of a majority, and why.
    refused: Vec<(String, String)>,
    /// Those of them that should not be in the list.
    misconfigured: Vec<(String, String)>,
    /// So many refuse the login: the first one, in words.
    refuse_login: (usize, Option<String>),
    /// All the others that do not vote, in words.
    absent: Arc<str>,
    /// One of them abstains.
    abstain: bool,
}

impl Roll {
    pub(super) fn of(all: &[Found]) -> Self {
        let runs: Vec<_> =
            all.iter().map(|one| (one.standing == NodeStanding::Votes).then(|| one.run_id.clone())).collect();
        let named = |one: &Found| format!("{} {}", one.address, one.standing);
        let refused = |one: &Found| match &one.standing {
            NodeStanding::Refused(why) => Some((one.address.clone(), why.clone())),
            _ => None,
        };
        let refuse_login =
            || all.iter().filter(|one| one.refuses_login && matches!(one.standing, NodeStanding::Away(_)));
        let absent: Vec<_> =
            all.iter().filter(|one| one.standing != NodeStanding::Votes).map(named).collect();
        Self {
            votes: runs.iter().flatten().count(),
            runs,
            is_complete: all.iter().all(|one| one.standing != NodeStanding::Unknown),
            refused: all.iter().filter_map(refused).collect(),
            misconfigured: all.iter().filter(|one| one.is_misconfigured).filter_map(refused).collect(),
            refuse_login: (refuse_login().count(), refuse_login().map(named).next()),
            absent: absent.join("; ").into(),
            abstain: all.iter().any(|one| matches!(one.standing, NodeStanding::Abstains(_))),
        }
    }

    /// A list that names what can never be one of a majority's servers is wrong as a whole. Told to whoever connects. Any
    /// other server that is refused just does not vote, while the others can be a majority.
    pub(super) fn check(&self, operation: &'static str) -> Result<(), Error> {
        match self.misconfigured.is_empty() {
            true => Ok(()),
            false => Err(wrong(operation, &self.misconfigured)),
        }
    }

    /// Those that vote.
    pub(super) fn voters(&self) -> Nodes {
        let voters = self.runs.iter().enumerate().filter(|(_, run)| run.is_some());
        voters.fold(Nodes::default(), |nodes, (node, _)| nodes.with(node))
    }

    /// Servers that cannot be part of a majority, in words.
    pub(super) fn refused(&self) -> impl Iterator<Item = String> {
        self.refused.iter().map(|(address, why)| format!("{address} is refused: {why}"))
    }

    /// Too few vote. Nothing was sent.
    pub(super) fn too_few(&self, majority: Majority, operation: &'static str) -> Error {
        if !majority.is_reached(majority.nodes() - self.refused.len()) {
            return wrong(operation, &self.refused);
        }
        if let (count, Some(first)) = &self.refuse_login
            && !majority.is_reached(majority.nodes() - count)
        {
            return Error::new(ErrorKind::Refused(Refusal::NotAuthenticated), operation, first.clone());
        }
        let (votes, nodes, needed) = (self.votes, majority.nodes(), majority.needed());
        let stay = match self.abstain {
            true => "; a client has to stay connected so long, such as `lockkeeper quorum wait`",
            false => "",
        };
        let detail =
            format!("{votes} of {nodes} servers vote, and {needed} are needed: {}{stay}", self.absent);
        Error::new(ErrorKind::Unreachable, operation, detail)
    }
}

/// What is wrong with these servers, those of one reason together.
fn wrong(operation: &'static str, refused: &[(String, String)]) -> Error {
    let is_other = refused.iter().all(|(_, why)| why.starts_with(OTHER));
    let mut reasons: Vec<(&str, Vec<&str>)> = vec![];
    for (address, why) in refused {
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, addresses)) => addresses.push(address),
            None => reasons.push((why, vec![address])),
        }
    }
    let reasons: Vec<_> =
        reasons.into_iter().map(|(why, at)| format!("{} is refused: {why}", at.join(", "))).collect();
    let (lead, tail) = match is_other {
        true => (
            "the URL is not that of these servers' majority",
            "; all clients name the same servers and max_lease (to change them: `lockkeeper quorum init --force`)",
        ),
        false => ("a majority needs independent servers", ""),
    };
    let detail = format!("{lead}: {}{tail}", reasons.join("; "));
    Error::new(ErrorKind::Unsupported, operation, detail)
}

/// Servers that answer under the same run are one server, and have one vote: that of the name that comes first.
pub(super) fn refuse_twins(all: &mut [Found]) {
    for at in 0..all.len() {
        let Some((earlier, [own, ..])) = all.split_at_checked(at) else { continue };
        let twin = earlier.iter().find(|one| one.is_there() && own.is_there() && own.run_id == one.run_id);
        let Some(address) = twin.map(|one| one.address.clone()) else { continue };
        if let Some(one) = all.get_mut(at) {
            one.standing = NodeStanding::Refused(format!("it is the same server as {address}"));
            one.is_misconfigured = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(address: &str, run_id: &str, standing: NodeStanding) -> Found {
        Found { standing, run_id: run_id.into(), ..Found::new(address.into()) }
    }

    #[test]
    fn what_several_are_refused_for_is_said_once_and_what_to_do() {
        let why = || NodeStanding::Refused("its marker is of another majority".to_owned());
        let all = [found("a:1", "x", why()), found("b:1", "y", why()), found("c:1", "z", why())];
        let error = Roll::of(&all).too_few(Majority::of(3).unwrap(), "connect").to_string();
        assert!(
            error.contains("the URL is not that of these servers' majority: a:1, b:1, c:1 is refused"),
            "{error}"
        );
        assert!(
            error.matches("its marker").count() == 1 && error.contains("same servers and max_lease"),
            "{error}"
        );
    }

    #[test]
    fn two_names_of_one_server_have_one_vote_and_a_server_that_is_away_is_nobodys_twin() {
        let mut all = [
            found("a:1", "x", NodeStanding::Votes),
            found("b:1", "x", NodeStanding::Abstains(Duration::ZERO)),
            found("c:1", "x", NodeStanding::Away("gone".into())),
            found("d:1", "y", NodeStanding::Votes),
        ];
        refuse_twins(&mut all);
        let roll = Roll::of(&all);
        assert_eq!(roll.votes, 2);
        let error = roll.check("acquire").unwrap_err().to_string();
        assert!(error.contains("b:1") && error.contains("same server as a:1"), "{error}");
        assert!(matches!(all[2].standing, NodeStanding::Away(_)));
    }
}
