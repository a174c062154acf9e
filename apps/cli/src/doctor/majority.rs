//! A majority of independent servers: each of them, and all together.

use lockkeeper::Keeper;
use lockkeeper::redis::{NodeReport, NodeStanding, QuorumStore};

use super::facts::Facts;
use super::finding::{Finding, Level, Report};
use super::{eviction, persistence};

/// A difference between two servers' clocks that takes part of every lease.
const APART_US: u64 = 1_000_000;

/// Examines all servers, in addition to `more`. What one server's own examination would say besides is for a URL of
/// that server.
pub(super) async fn examine(keeper: &Keeper, store: &QuorumStore, more: Vec<Finding>) -> Report {
    let reports = store.status().await;
    let health = keeper.health().await;
    let mut found = vec![standing(store, &reports)];
    found.extend(number(reports.len()));
    found.extend(clocks(&reports));
    found.extend(more);
    for (address, node) in store.each() {
        let facts = Facts::gather(node).await;
        found.extend(eviction::check(&facts).map(|finding| named(finding, &address)));
        if store.is_persistent() {
            found.push(kept(&facts, &address));
        } else {
            found.extend(persistence::check(&facts).map(|finding| forgiven(named(finding, &address))));
        }
    }
    let nodes = store.majority().nodes();
    let round_trip = health.round_trip.ok().and_then(|time| u64::try_from(time.as_micros()).ok());
    Report::new(health.address, format!("a majority of {nodes} servers"), round_trip, found)
}

fn named(finding: Finding, address: &str) -> Finding {
    Finding { title: format!("{address}: {}", finding.title), ..finding }
}

/// What a restart forgets is covered: the server abstains.
fn forgiven(finding: Finding) -> Finding {
    let level = finding.level.min(Level::Ok);
    Finding { level, advice: String::new(), commands: vec![], ..finding }.seen(
        "After a restart it abstains for max_lease, so that what it has forgotten does no harm. Clients of other libraries \
         have to keep that rule by themselves.",
    )
}

fn kept(facts: &Facts, address: &str) -> Finding {
    let is_kept =
        (facts.setting("appendonly"), facts.setting("appendfsync")) == (Some("yes"), Some("always"));
    if is_kept {
        return Finding::new(
            "persistence",
            Level::Ok,
            format!("{address}: every write is on disk before it is answered"),
        );
    }
    let title = match facts.setting("appendonly") {
        Some(_) => format!("{address}: the URL says persistent=yes, and the server may forget"),
        None => format!("{address}: whether it keeps every write, as persistent=yes says, cannot be seen"),
    };
    let level = if facts.setting("appendonly").is_some() { Level::Problem } else { Level::Note };
    Finding::new("persistence", level, title)
        .seen("A server that forgets a lock and votes at once lets a second holder in.")
        .advice("Flush every write, or leave persistent=yes away, so that a restarted server abstains:")
        .command("CONFIG SET appendonly yes")
        .command("CONFIG SET appendfsync always")
}

fn standing(store: &QuorumStore, reports: &[NodeReport]) -> Finding {
    let votes = reports.iter().filter(|one| one.standing == NodeStanding::Votes).count();
    let (majority, all) = (store.majority(), reports.len());
    let is_wrong = reports.iter().any(|one| one.is_misconfigured);
    let level = match (is_wrong || !majority.is_reached(votes), votes == all) {
        (true, _) => Level::Problem,
        (false, true) => Level::Ok,
        (false, false) => Level::Warning,
    };
    let needed = majority.needed();
    let finding =
        Finding::new("votes", level, format!("{votes} of {all} servers vote, and {needed} are needed"));
    let items = reports.iter().filter(|one| one.standing != NodeStanding::Votes);
    finding.items(items.map(|one| format!("{} {}", one.address, one.standing)).collect())
}

/// Every second server brings nothing.
fn number(servers: usize) -> Option<Finding> {
    let (title, advice) = match servers {
        2 => ("Two servers: neither may be away".to_owned(), "Use three."),
        even if even % 2 == 0 => (
            format!("{even} servers: as many may be away as of {}", even - 1),
            "Use an odd number; one more, or one less.",
        ),
        _ => return None,
    };
    Some(Finding::new("servers", Level::Warning, title).advice(advice))
}

fn clocks(reports: &[NodeReport]) -> Option<Finding> {
    let known = || reports.iter().filter(|one| !one.run_id.is_empty());
    let (first, last) = (known().map(|one| one.ahead_us).min()?, known().map(|one| one.ahead_us).max()?);
    let apart = last.abs_diff(first);
    let items = known().map(|one| format!("{}: {:+.1} ms", one.address, one.ahead_us as f64 / 1e3)).collect();
    if apart < APART_US {
        return Some(Finding::new("clock", Level::Ok, "The servers' clocks agree"));
    }
    let seen = "Each counts leases by its own clock, so a constant difference does no harm. A clock that jumps forward ends \
         leases at that server; where it happens at a majority, a second holder comes in.";
    let title = format!("The servers' clocks are {:.1} s apart", apart as f64 / 1e6);
    let advice = "Synchronise all of them (NTP, chrony), and let them be slewed rather than set.";
    Some(Finding::new("clock", Level::Warning, title).seen(seen).items(items).advice(advice))
}
