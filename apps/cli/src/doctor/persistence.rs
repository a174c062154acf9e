//! What a crash or a restart of the server makes it forget.

use super::facts::Facts;
use super::finding::{Finding, Level};

const CHECK: &str = "persistence";
const FORGOTTEN: &str = "A lock that is forgotten can be taken by somebody else while its holder works on.";

/// The append-only file, how often it is flushed, and snapshots. Nothing where the server tells nothing.
pub(super) fn check(facts: &Facts) -> Option<Finding> {
    let appends = match facts.setting("appendonly") {
        Some(value) => value == "yes",
        None => facts.info("aof_enabled")? == "1",
    };
    Some(match (appends, facts.setting("appendfsync"), facts.setting("save")) {
        (true, Some("always"), _) => {
            Finding::new(CHECK, Level::Ok, "Every write is on disk before it is answered")
        }
        (true, Some("everysec"), _) => everysec(),
        (true, Some(policy), _) => unflushed(policy),
        (true, None, _) => Finding::new(CHECK, Level::Note, "Writes go to an append-only file")
            .seen("CONFIG is refused, so how often it is flushed is unknown."),
        (false, _, Some("")) => nothing(),
        (false, _, Some(save)) => snapshots(save),
        (false, _, None) => Finding::new(CHECK, Level::Warning, "A crash forgets locks").seen(format!(
            "appendonly no; CONFIG is refused, so whether there are snapshots is unknown. {FORGOTTEN}"
        )),
    })
}

fn everysec() -> Finding {
    Finding::new(CHECK, Level::Note, "A machine that loses power forgets up to two seconds")
        .seen(format!(
            "appendonly yes, appendfsync everysec. A crash of the server alone loses nothing. {FORGOTTEN}"
        ))
        .advice("Check fences where data is written. Flushing every write costs speed and closes the gap:")
        .command("CONFIG SET appendfsync always")
}

fn unflushed(policy: &str) -> Finding {
    Finding::new(CHECK, Level::Warning, "A machine that loses power forgets many seconds")
        .seen(format!("appendonly yes, appendfsync {policy}. {FORGOTTEN}"))
        .advice("Flush once per second at least:")
        .command("CONFIG SET appendfsync everysec")
}

fn nothing() -> Finding {
    Finding::new(CHECK, Level::Warning, "A restart forgets every lock")
        .seen(format!("appendonly no, save \"\": nothing is written to disk. {FORGOTTEN}"))
        .advice("Keep an append-only file, in the configuration as well as now; and check fences.")
        .command("CONFIG SET appendonly yes")
        .command("CONFIG REWRITE")
}

fn snapshots(save: &str) -> Finding {
    Finding::new(CHECK, Level::Warning, "A crash forgets every lock since the last snapshot")
        .seen(format!("appendonly no, save \"{save}\". {FORGOTTEN}"))
        .advice("Keep an append-only file, in the configuration as well as now; and check fences.")
        .command("CONFIG SET appendonly yes")
        .command("CONFIG REWRITE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_persisting_is_told_apart() {
        let level =
            |info, settings: &[(&str, &str)]| check(&Facts::of(info, settings)).map(|found| found.level);
        let aof = |policy| [("appendonly", "yes"), ("appendfsync", policy), ("save", "")];
        assert_eq!(level("", &aof("always")), Some(Level::Ok));
        assert_eq!(level("", &aof("everysec")), Some(Level::Note));
        assert_eq!(level("", &aof("no")), Some(Level::Warning));
        assert_eq!(level("", &[("appendonly", "no"), ("save", "")]), Some(Level::Warning));
        assert_eq!(level("", &[("appendonly", "no"), ("save", "3600 1")]), Some(Level::Warning));
        assert_eq!(level("aof_enabled:1\r\n", &[]), Some(Level::Note));
        assert_eq!(level("aof_enabled:0\r\n", &[]), Some(Level::Warning));
        assert_eq!(level("", &[]), None);
    }
}
