//! What kind of server it is: product, version, mode.

use lockkeeper::redis::ServerInfo;

use super::facts::Facts;
use super::finding::{Finding, Level};

/// The oldest Redis that the library is made for.
const OLDEST: (u32, u32) = (6, 2);
/// The oldest that has read-only scripts.
const READ_ONLY_SCRIPTS: (u32, u32) = (7, 0);

/// Product, version and mode in one line.
pub(super) fn describe(info: &ServerInfo) -> String {
    match info.version.as_str() {
        "" => "a server that does not say what it is".to_owned(),
        version => format!("{} {version}, {}", product(info), info.mode),
    }
}

/// Product and version. Nothing where INFO is refused.
pub(super) fn version(info: &ServerInfo) -> Option<Finding> {
    if info.version.is_empty() {
        return None;
    }
    let name = format!("{} {}", product(info), info.version);
    Some(if info.compatible_with < OLDEST {
        Finding::new("version", Level::Problem, format!("{name} is too old"))
            .seen("Lockkeeper is made and tested for Redis 6.2 and later, and for Valkey.")
            .advice("Use a newer server.")
    } else if info.compatible_with < READ_ONLY_SCRIPTS {
        Finding::new("version", Level::Ok, name).seen(
            "Before 7.0 there are no read-only scripts: looking at a lock waits while writes are paused.",
        )
    } else {
        Finding::new("version", Level::Ok, name)
    })
}

/// A Sentinel is not examined any further.
pub(super) fn sentinel(info: &ServerInfo) -> Option<Finding> {
    let finding = Finding::new("mode", Level::Problem, "This is a Sentinel, which keeps no locks");
    (info.mode == "sentinel").then(|| finding.advice("Give the URL of the primary that it watches."))
}

/// A node of a cluster. Nothing for standalone.
pub(super) fn mode(info: &ServerInfo, facts: &Facts, prefix: &str) -> Option<Finding> {
    if info.mode != "cluster" && facts.info("cluster_enabled") != Some("1") {
        return None;
    }
    let finding = Finding::new("mode", Level::Warning, "This is a node of a cluster").seen(
        "A lock on several names at once needs all of them in one slot, and a name whose slot lies on \
             another node is refused here (MOVED).",
    );
    let all = "Give the URL of the whole cluster, redis+cluster://seed1,seed2.".to_owned();
    let has_tag = prefix.contains('{');
    let alone = if has_tag {
        "Or stay here: the prefix has a hash tag, so all its locks share one slot.".to_owned()
    } else {
        format!(
            "Or use a prefix with a hash tag, such as {{{}}}:, which puts all its locks into one slot.",
            stem(prefix)
        )
    };
    Some(finding.advice(format!("{all} {alone}")))
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
