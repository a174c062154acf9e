//! What kind of server it is: product, version, mode.

use lockkeeper::redis::ServerInfo;

use super::facts::Facts;
use super::finding::{Finding, Level};

/// The oldest Redis that the library is made for.
const OLDEST: (u32, u32) = (6, 2);

/// Product, version and mode in one line.
pub(super) fn describe(info: &ServerInfo) -> String {
    match info.version.as_str() {
        "" => "a server that does not say what it is".to_owned(),
        version => format!("{} {version}, {}", product(info), info.mode),
    }
}

/// Product and version.
pub(super) fn version(info: &ServerInfo) -> Finding {
    if info.version.is_empty() {
        return Finding::new("version", Level::Note, "The version is unknown")
            .seen("INFO is refused, so version, memory and replication could not be looked at.")
            .advice("Ask whoever runs the server, or run this as an administrator.");
    }
    let name = format!("{} {}", product(info), info.version);
    if info.compatible_with < OLDEST {
        return Finding::new("version", Level::Problem, format!("{name} is too old"))
            .seen("Lockkeeper is made and tested for Redis 6.2 and later, and for Valkey.")
            .advice("Use a newer server.");
    }
    let finding = Finding::new("version", Level::Ok, name);
    if info.read_only_scripts {
        return finding;
    }
    finding.seen("Before 7.0 there are no read-only scripts: looking at a lock waits while writes are paused.")
}

/// Standalone, cluster or Sentinel. Nothing for standalone.
pub(super) fn mode(info: &ServerInfo, facts: &Facts, prefix: &str) -> Option<Finding> {
    if info.mode == "sentinel" {
        let finding = Finding::new("mode", Level::Problem, "This is a Sentinel, which keeps no locks");
        return Some(finding.advice("Give the URL of the primary that it watches."));
    }
    if info.mode != "cluster" && facts.info("cluster_enabled") != Some("1") {
        return None;
    }
    let finding = Finding::new("mode", Level::Warning, "This is a node of a cluster")
        .seen(
            "A lock on several names at once needs all of them in one slot, and a name whose slot lies on \
             another node is refused here (MOVED).",
        );
    let has_tag = prefix.contains('{');
    let advice = if has_tag {
        "The prefix has a hash tag, so all its locks share one slot: give the URL of the node that has it."
            .to_owned()
    } else {
        format!("Use a prefix with a hash tag, such as {{{}}}:, which puts all its locks into one slot.", stem(prefix))
    };
    Some(finding.advice(advice))
}

fn product(info: &ServerInfo) -> &'static str {
    if info.product == "valkey" { "Valkey" } else { "Redis" }
}

fn stem(prefix: &str) -> &str {
    match prefix.trim_end_matches(':') {
        "" => "lock",
        stem => stem,
    }
}
