//! The server's role, and what a failover can lose.

use super::facts::Facts;
use super::finding::{Finding, Level};

const CHECK: &str = "replication";

/// A replica, as its primary lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) host: String,
    pub(super) port: u16,
}

/// The role, replicas, and how many of them a write needs. Nothing where INFO is refused.
pub(super) fn check(facts: &Facts) -> Option<Finding> {
    Some(if facts.info("role")? == "master" { primary(facts) } else { replica(facts) })
}

/// The same of a server that others watch, so that a replica takes its place when it goes away.
pub(super) fn of_watched(facts: &Facts) -> Option<Finding> {
    let is_alone = facts.info("role")? == "master" && facts.number("connected_slaves").unwrap_or(0) == 0;
    let alone = Finding::new(CHECK, Level::Warning, "A primary without replicas: it cannot fail over now")
        .seen("When it goes away, its locks cannot be taken until it is back.")
        .advice("Look for its replicas, and at their connection to it.");
    if is_alone { Some(alone) } else { check(facts) }
}

fn primary(facts: &Facts) -> Finding {
    let count = facts.number("connected_slaves").unwrap_or(0);
    if count == 0 {
        return Finding::new(CHECK, Level::Ok, "A primary without replicas")
            .seen("No failover can lose a lock. While the server is away, nobody takes one.");
    }
    let needed = facts.setting("min-replicas-to-write");
    let narrowed = needed.is_some_and(|needed| needed != "0");
    let level = if narrowed { Level::Note } else { Level::Warning };
    let finding = Finding::new(CHECK, level, "A failover can lose locks").seen(format!(
        "A primary with {}; min-replicas-to-write {}, min-replicas-max-lag {}. A lock is granted before a \
         replica has it: promoted in between, the replica grants it again. Waiting for replicas makes that rarer, not \
         impossible.",
        replicas(count),
        needed.unwrap_or("unknown"),
        facts.setting("min-replicas-max-lag").unwrap_or("unknown"),
    ));
    if narrowed {
        return finding.advice("Check fences where data is written.");
    }
    finding
        .advice(
            "Check fences where data is written. So that a primary without its replicas soon stops granting:",
        )
        .command("CONFIG SET min-replicas-to-write 1")
        .command("CONFIG SET min-replicas-max-lag 2")
}

fn replica(facts: &Facts) -> Finding {
    let primary = match (facts.info("master_host"), facts.info("master_port")) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        _ => "unknown".to_owned(),
    };
    let stale = match facts.setting("replica-serve-stale-data") {
        Some("yes") => {
            " replica-serve-stale-data yes: cut off from its primary, it goes on showing old locks."
        }
        _ => "",
    };
    Finding::new(CHECK, Level::Problem, "This is a replica: no lock can be taken here")
        .seen(format!(
            "Its primary is {primary} (link: {}). Writes are refused (READONLY).{stale}",
            facts.info("master_link_status").unwrap_or("unknown")
        ))
        .advice("Give the URL of the primary.")
}

/// How a replica follows its primary.
pub(super) struct Lag {
    pub(super) name: String,
    pub(super) state: String,
    /// So many seconds ago it told how far it is.
    pub(super) lag: u64,
    /// So many bytes of what was written it had not read then.
    pub(super) behind: u64,
}

/// The replicas whose addresses the primary knows.
pub(super) fn listed(facts: &Facts) -> Vec<Replica> {
    lines(facts).filter_map(read_replica).collect()
}

/// How each of them follows the primary, which has `written` so many bytes.
pub(super) fn lags(facts: &Facts, written: u64) -> Vec<Lag> {
    let read = |line: &str| {
        let Replica { host, port } = read_replica(line)?;
        let number = |name: &str| field(line, name).and_then(|value| value.parse::<u64>().ok());
        Some(Lag {
            name: format!("{host}:{port}"),
            state: field(line, "state")?.to_owned(),
            lag: number("lag")?,
            behind: written.saturating_sub(number("offset")?),
        })
    };
    lines(facts).filter_map(read).collect()
}

fn lines(facts: &Facts) -> impl Iterator<Item = &str> {
    const MOST: usize = 8;
    (0..MOST).map_while(|at| facts.info(&format!("slave{at}")))
}

/// `ip=127.0.0.1,port=7001,state=online,offset=14,lag=1`.
fn read_replica(line: &str) -> Option<Replica> {
    Some(Replica { host: field(line, "ip")?.to_owned(), port: field(line, "port")?.parse().ok()? })
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = line.split(',').filter_map(|part| part.split_once('='));
    parts.find_map(|(key, value)| (key == name).then_some(value))
}

fn replicas(count: u64) -> String {
    if count == 1 { "1 replica".to_owned() } else { format!("{count} replicas") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_read_as_the_primary_lists_them() {
        let facts = Facts::of("slave0:ip=::1,port=7001,state=online,offset=14,lag=1\r\nslave1:odd\r\n", &[]);
        assert_eq!(listed(&facts), [Replica { host: "::1".into(), port: 7001 }]);
    }

    #[test]
    fn a_failover_stays_dangerous_with_replicas_that_must_write() {
        let info = "role:master\r\nconnected_slaves:2\r\n";
        let level =
            |needed| check(&Facts::of(info, &[("min-replicas-to-write", needed)])).map(|found| found.level);
        let alone = Facts::of("role:master\r\nconnected_slaves:0\r\n", &[]);
        assert_eq!(check(&alone).map(|found| found.level), Some(Level::Ok));
        assert_eq!(of_watched(&alone).map(|found| found.level), Some(Level::Warning));
        assert_eq!((level("0"), level("1")), (Some(Level::Warning), Some(Level::Note)));
        assert_eq!(check(&Facts::of("role:slave\r\n", &[])).map(|found| found.level), Some(Level::Problem));
    }
}
