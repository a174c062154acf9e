//! `lockkeeper quorum status`.

use std::process::ExitCode;

use lockkeeper::core::lock::quorum::Majority;
use lockkeeper::redis::{NodeReport, NodeStanding, QuorumStore};
use serde::Serialize;

use crate::common;
use crate::exit::UNAVAILABLE;
use crate::table::table;

/// What brings back a vote.
const ABSTAIN: &str = "A server that abstains votes again once some client has stayed connected for max_lease: a service, or \
                       `lockkeeper quorum wait`.";

/// A server as JSON shows it.
#[derive(Debug, Serialize)]
struct Row<'a> {
    address: &'a str,
    standing: &'static str,
    why: String,
    abstains_ms: Option<u64>,
    run_id: &'a str,
    uptime_s: u64,
    clock_ahead_us: i64,
    marked_run: Option<&'a str>,
    marked_max_lease_ms: Option<u64>,
}

/// Exit code 69 where fewer than a majority vote.
pub(super) async fn run(store: &QuorumStore, json: bool) -> anyhow::Result<ExitCode> {
    let reports = store.status().await;
    print(&reports, json)?;
    print_votes(&reports, store.majority(), json)?;
    Ok(if store.majority().is_reached(votes(&reports)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(UNAVAILABLE)
    })
}

pub(super) fn votes(reports: &[NodeReport]) -> usize {
    reports.iter().filter(|one| one.standing == NodeStanding::Votes).count()
}

/// How many vote; and what brings the others back.
pub(super) fn print_votes(reports: &[NodeReport], majority: Majority, json: bool) -> anyhow::Result<()> {
    if json {
        return Ok(());
    }
    let (votes, nodes, needed) = (votes(reports), majority.nodes(), majority.needed());
    common::print(&format!("\n{votes} of {nodes} servers vote, and {needed} are needed."))?;
    if reports.iter().any(|one| matches!(one.standing, NodeStanding::Abstains(_))) {
        common::print(ABSTAIN)?;
    }
    Ok(())
}

pub(super) fn print(reports: &[NodeReport], json: bool) -> anyhow::Result<()> {
    if json {
        return common::print_json(&reports.iter().map(row).collect::<Vec<_>>());
    }
    let short = |run_id: &str| run_id.chars().take(8).collect::<String>();
    let rows = reports.iter().map(|one| {
        let marked = one.marker.as_ref().map_or_else(|| "-".to_owned(), |marker| short(&marker.run));
        let is_known = !one.run_id.is_empty();
        let clock = if is_known { format!("{:+.1} ms", one.ahead_us as f64 / 1e3) } else { "-".to_owned() };
        let run = if is_known { short(&one.run_id) } else { "-".to_owned() };
        [one.address.clone(), run, marked, clock, one.standing.to_string().replace(char::is_control, "?")]
    });
    common::print(&table(["SERVER", "RUN", "MARKED", "CLOCK", "STANDING"], rows))
}

fn row(one: &NodeReport) -> Row<'_> {
    let abstains = match &one.standing {
        NodeStanding::Abstains(left) => Some(millis(*left)),
        _ => None,
    };
    Row {
        address: &one.address,
        standing: name(&one.standing),
        why: one.standing.to_string(),
        abstains_ms: abstains,
        run_id: &one.run_id,
        uptime_s: one.uptime.as_secs(),
        clock_ahead_us: one.ahead_us,
        marked_run: one.marker.as_ref().map(|marker| &*marker.run),
        marked_max_lease_ms: one.marker.as_ref().map(|marker| millis(marker.max_lease)),
    }
}

fn name(standing: &NodeStanding) -> &'static str {
    match standing {
        NodeStanding::Votes => "votes",
        NodeStanding::Abstains(_) => "abstains",
        NodeStanding::Refused(_) => "refused",
        _ => "away",
    }
}

fn millis(length: std::time::Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
