//! What was found: one finding per subject, and all of them together.

use serde::Serialize;

/// How much a finding matters to locks. Ordered: later is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// Nothing to do.
    Ok,
    /// Good to know, or could not be looked at.
    Note,
    /// Locks can be lost when something else happens.
    Warning,
    /// Locks are in danger, or do not work at all.
    Problem,
}

impl Level {
    /// Its name, as printed.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The subject, one word, the same in every version.
    pub(super) check: &'static str,
    /// How much it matters.
    pub(super) level: Level,
    /// It in one line.
    pub(super) title: String,
    /// What was seen, and what follows from it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) seen: String,
    /// The keys, commands or servers that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) items: Vec<String>,
    /// What to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) advice: String,
    /// How, as commands to be given to the server or the shell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) commands: Vec<String>,
}

impl Finding {
    /// A finding that is its title so far.
    pub(super) fn new(check: &'static str, level: Level, title: impl Into<String>) -> Self {
        let (title, none) = (title.into(), String::new());
        Self { check, level, title, seen: none.clone(), items: vec![], advice: none, commands: vec![] }
    }

    /// With what was seen.
    #[must_use]
    pub(super) fn seen(mut self, seen: impl Into<String>) -> Self {
        self.seen = seen.into();
        self
    }

    /// With what it is about.
    #[must_use]
    pub(super) fn items(mut self, items: Vec<String>) -> Self {
        self.items = items;
        self
    }

    /// With what to do.
    #[must_use]
    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// With one more command.
    #[must_use]
    pub(super) fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }
}

/// All that was found on one server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// The server's address, without credentials.
    pub(super) address: String,
    /// What it is, as far as it says so.
    pub(super) server: String,
    /// The time that one request took, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) round_trip_us: Option<u64>,
    /// The worst level among the findings.
    pub(super) worst: Level,
    /// The findings, the worst first.
    pub(super) findings: Vec<Finding>,
}

impl Report {
    /// Puts findings in order.
    pub(super) fn new(
        address: String,
        server: String,
        round_trip_us: Option<u64>,
        found: Vec<Finding>,
    ) -> Self {
        let mut findings = found;
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        let worst = findings.first().map_or(Level::Ok, |finding| finding.level);
        Self { address, server, round_trip_us, worst, findings }
    }

    /// How many findings have this level.
    pub(super) fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}
