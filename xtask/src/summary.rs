//! The table at the end: which steps ran, how they ended, how long they took.

use std::fmt::{self, Write};
use std::time::Duration;

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Passed,
    /// Something is wrong.
    Failed,
    /// Its tool is not on this machine.
    Skipped,
    /// An earlier step failed.
    NotRun,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "SKIPPED",
            Outcome::NotRun => "not run",
        })
    }
}

/// What there is to say about one step.
#[derive(Debug)]
pub(crate) struct Line {
    /// The step's name.
    pub(crate) name: &'static str,
    /// How it ended.
    pub(crate) outcome: Outcome,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Line {
    /// The line of a step that an earlier failure kept from running.
    pub(crate) fn not_run(name: &'static str) -> Self {
        Self { name, outcome: Outcome::NotRun, took: Duration::ZERO }
    }
}

/// The table, with the total as its last line.
pub(crate) fn table(lines: &[Line]) -> String {
    let width = lines.iter().map(|line| line.name.len()).max().unwrap_or(0).max("total".len());
    let mut table = String::new();
    for line in lines {
        let row = row(width, line.name, &line.outcome.to_string(), line.took);
        let _ = writeln!(table, "{row}");
    }
    let failed = lines.iter().any(|line| line.outcome == Outcome::Failed);
    let verdict = if failed { Outcome::Failed } else { Outcome::Passed };
    table + &row(width, "total", &verdict.to_string(), lines.iter().map(|line| line.took).sum())
}

fn row(width: usize, name: &str, outcome: &str, took: Duration) -> String {
    format!("{name:width$}  {outcome:7}  {:>8}", seconds(took))
}

/// A duration as people read it.
pub(crate) fn seconds(took: Duration) -> String {
    let tenths = (took.as_millis() + 50) / 100;
    match tenths / 600 {
        0 => format!("{}.{}s", tenths / 10, tenths % 10),
        minutes => format!("{minutes}m {:02}s", tenths % 600 / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &'static str, outcome: Outcome, millis: u64) -> Line {
        Line { name, outcome, took: Duration::from_millis(millis) }
    }

    #[test]
    fn durations_read_well_at_every_size() {
        let shown = |millis| seconds(Duration::from_millis(millis));
        assert_eq!(shown(0), "0.0s");
        assert_eq!(shown(1_249), "1.2s");
        assert_eq!(shown(59_960), "1m 00s");
        assert_eq!(shown(754_000), "12m 34s");
    }

    #[test]
    fn the_table_lines_up_and_ends_with_the_total() {
        let lines = [line("fmt", Outcome::Passed, 800), line("doc tests", Outcome::Passed, 61_000)];
        let expected =
            ["fmt        passed       0.8s", "doc tests  passed     1m 01s", "total      passed     1m 01s"];
        assert_eq!(table(&lines), expected.join("\n"));
    }

    #[test]
    fn one_failure_fails_the_total() {
        let lines = [line("fmt", Outcome::Failed, 0), Line::not_run("deny")];
        let table = table(&lines);
        assert!(table.contains("deny   not run"));
        assert!(table.ends_with("total  FAILED       0.0s"));
    }

    #[test]
    fn a_skipped_step_is_loud_but_no_failure() {
        let table = table(&[line("deny", Outcome::Skipped, 0)]);
        assert!(table.contains("SKIPPED") && table.contains("total  passed"));
    }
}
