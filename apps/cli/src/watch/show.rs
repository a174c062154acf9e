//! A look for people on a terminal, for people in a file, and for programs.

use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockkeeper::Error;
use lockkeeper::core::key::Escaped;
use lockkeeper::core::lock::Inspection;
use serde::Serialize;

use super::Look;
use super::changes::Changes;
use super::form::Form;
use crate::common::{self, rounded};
use crate::ls::{millis, remaining};
use crate::show::{self, Report};

/// So many keepers that wait are named on a terminal.
const MOST_NAMED: usize = 8;

/// Where and how looks are shown.
pub(super) struct Show {
    key: Vec<u8>,
    every: Duration,
    form: Form,
    /// What was seen last, in short, and when; shown while there is no answer.
    last: Option<(Instant, String)>,
}

/// What JSON shows.
#[derive(Serialize)]
struct Row {
    at_ms: u64,
    #[serde(flatten)]
    report: Option<Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    changes_seen: u64,
    changes_seen_per_second: Option<f64>,
}

impl Show {
    pub(super) fn new(key: Vec<u8>, every: Duration, json: bool) -> Self {
        let form = Form::new(json);
        Self { key, every, form, last: None }
    }

    /// Shows one look.
    pub(super) fn look(&mut self, look: &Look, changes: &Changes) -> io::Result<()> {
        match self.form {
            Form::Json => write_line(&serde_json::to_string(&self.row(look, changes))?),
            Form::Lines => write_line(&self.line(look, changes)),
            Form::Screen(_) => {
                let lines = self.lines(look, changes);
                self.form.draw(&lines)
            }
        }
    }

    /// Leaves the terminal to what comes after.
    pub(super) fn end(&self) {
        self.form.end();
    }

    fn row(&self, look: &Look, changes: &Changes) -> Row {
        let (report, error) = match look {
            Ok(seen) => (Some(show::report(&self.key, seen)), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let key = error.is_some().then(|| common::text_of(&self.key));
        let at_ms = millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let rate = changes.rate().map(|(rate, _)| rate);
        Row { at_ms, report, key, error, changes_seen: changes.total(), changes_seen_per_second: rate }
    }

    fn line(&self, look: &Look, changes: &Changes) -> String {
        let at = humantime::format_rfc3339_millis(SystemTime::now());
        let seen = match look {
            Ok(seen) => seen,
            Err(error) => return format!("{at} no answer: {}", reason(error)),
        };
        format!("{at} {}, {} changes seen", in_short(seen), changes.total())
    }

    fn lines(&mut self, look: &Look, changes: &Changes) -> Vec<String> {
        let mut lines = vec![self.head(look)];
        match look {
            Ok(seen) => {
                lines.extend(
                    show::facts(seen, MOST_NAMED).into_iter().map(|(name, value)| named(name, &value)),
                );
                self.last = Some((Instant::now(), in_short(seen)));
            }
            Err(_) => lines.extend(self.last.as_ref().map(|(at, seen)| {
                let ago = rounded(Duration::from_secs(at.elapsed().as_secs()));
                named("last seen", &format!("{ago} ago: {seen}"))
            })),
        }
        lines.push(named("changes", &rate(changes)));
        lines.push(named("", "of holder: one a look at most, and none that happen inside one keeper"));
        lines.push(format!("  (a look every {}, Ctrl-C ends)", rounded(self.every)));
        lines
    }

    fn head(&self, look: &Look) -> String {
        let key = Escaped(&self.key);
        match look {
            Ok(seen) => format!("{key} {}", show::state(seen)),
            Err(error) => format!("{key}: no answer, looking again ({})", reason(error)),
        }
    }
}

fn named(name: &str, value: &str) -> String {
    format!("  {name:<9}  {value}")
}

fn in_short(seen: &Inspection) -> String {
    let fence = seen.fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
    let waiting = match seen.waiting() {
        0 => String::new(),
        waiting => format!(", {waiting} waiting"),
    };
    match (&seen.holder, seen.wrong_type) {
        (_, true) => "not a lock".to_owned(),
        (Some(holder), false) => {
            format!("held by {holder}, {} left{fence}{waiting}", remaining(seen.remaining))
        }
        (None, false) => format!("free{fence}{waiting}"),
    }
}

/// What is measured, in words that promise no more.
fn rate(changes: &Changes) -> String {
    match changes.rate() {
        None => "none seen yet".to_owned(),
        Some((rate, time)) => {
            let (total, time) = (changes.total(), rounded(Duration::from_secs(time.as_secs().max(1))));
            format!("{rate:.1} per second at least in the last {time}, {total} seen in all")
        }
    }
}

/// Without the key, which stands beside it, and on one line.
pub(crate) fn reason(error: &Error) -> String {
    let (kind, detail) = (error.kind(), error.detail());
    let text = if detail.is_empty() { kind.to_string() } else { format!("{kind}: {detail}") };
    text.replace(['\n', '\r'], " ")
}

/// At once, also into a file.
pub(crate) fn write_line(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
