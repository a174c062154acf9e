//! A look for people on a terminal, for people in a file, and for programs.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockkeeper::{Error, Limiter, Subject, Verdict};
use serde::Serialize;

use super::super::answer::{Question, Report, in_time, left, rounded_up};
use super::Look;
use crate::common::rounded;
use crate::ls::millis;
use crate::table::table;
use crate::watch::{Form, reason, write_line};

/// Where and how looks are shown.
pub(super) struct Show {
    limiter: Limiter,
    every: Duration,
    form: Form,
    /// What was said last of each, so that only changes are said.
    said: BTreeMap<Vec<u8>, String>,
    is_away: bool,
    is_first: bool,
}

#[derive(Serialize)]
struct Row {
    at_ms: u64,
    #[serde(flatten)]
    report: Option<Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Show {
    pub(super) fn new(limiter: Limiter, every: Duration, json: bool) -> Self {
        let form = Form::new(json);
        Self { limiter, every, form, said: BTreeMap::new(), is_away: false, is_first: true }
    }

    /// Shows one look.
    pub(super) fn look(&mut self, look: &Result<Look, Error>) -> io::Result<()> {
        if matches!(self.form, Form::Screen(_)) {
            let lines = self.lines(look);
            return self.form.draw(&lines);
        }
        match look {
            Ok(look) => self.changes(look)?,
            // Once for each time that it goes away.
            Err(error) if !self.is_away => self.say(None, &Err(error.clone()))?,
            Err(_) => {}
        }
        self.is_away = look.is_err();
        Ok(())
    }

    /// Leaves the terminal to what comes after.
    pub(super) fn end(&self) {
        self.form.end();
    }

    fn changes(&mut self, look: &Look) -> io::Result<()> {
        if std::mem::take(&mut self.is_first) && look.rows.is_empty() && matches!(self.form, Form::Lines) {
            write_line(&format!("{} {}", now(), self.head(look)))?;
        }
        let mut said = BTreeMap::new();
        for (subject, seen) in &look.rows {
            let state = counts(seen);
            if self.said.get(subject.as_bytes()) != Some(&state) {
                self.say(Some(subject), seen)?;
            }
            said.insert(subject.as_bytes().to_vec(), state);
        }
        self.said = said;
        Ok(())
    }

    fn say(&self, subject: Option<&Subject>, seen: &Result<Verdict, Error>) -> io::Result<()> {
        if let Form::Json = self.form {
            return write_line(&serde_json::to_string(&self.row(subject, seen)?)?);
        }
        write_line(&match (subject, seen) {
            (Some(subject), Ok(verdict)) => format!("{} {subject} {}", now(), in_short(verdict)),
            (Some(subject), Err(error)) => format!("{} {subject} {}", now(), reason(error)),
            (None, seen) => {
                format!("{} no answer: {}", now(), seen.as_ref().err().map(reason).unwrap_or_default())
            }
        })
    }

    fn row(&self, subject: Option<&Subject>, seen: &Result<Verdict, Error>) -> io::Result<Row> {
        let at_ms = millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        Ok(match (subject, seen) {
            (Some(subject), Ok(verdict)) => {
                let question = Question { limiter: &self.limiter, subject, asked: 1, takes: false };
                let report = question.report(verdict).map_err(io::Error::other)?;
                Row { at_ms, report: Some(report), subject: None, error: None }
            }
            (subject, seen) => {
                let error = seen.as_ref().err().map(ToString::to_string);
                Row { at_ms, report: None, subject: subject.map(ToString::to_string), error }
            }
        })
    }

    fn lines(&self, look: &Result<Look, Error>) -> Vec<String> {
        let every = format!("  (a look every {}, Ctrl-C ends)", rounded(self.every));
        match look {
            Ok(look) => {
                let mut lines = vec![self.head(look), every];
                let heading = ["KEY", "REMAINING", "RETRY IN", "FULL IN"];
                if !look.rows.is_empty() {
                    let table = table(heading, look.rows.iter().map(|(subject, seen)| cells(subject, seen)));
                    lines.extend(table.lines().map(str::to_owned));
                }
                lines
            }
            Err(error) => {
                let name = self.limiter.name();
                vec![format!("{name}: no answer, looking again ({})", reason(error)), every]
            }
        }
    }

    fn head(&self, look: &Look) -> String {
        let limits: Vec<String> = self.limiter.limits().map(|limit| limit.to_string()).collect();
        let limits = limits.join("; ");
        let count = match look.rows.len() {
            0 => "nobody has used anything".to_owned(),
            1 => "1 key".to_owned(),
            many => format!("{many} keys"),
        };
        let partial = if look.partial { ", and there may be more" } else { "" };
        format!("{} ({limits}): {count}{partial}", self.limiter.name())
    }
}

fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

/// What makes a change: times run by themselves.
fn counts(seen: &Result<Verdict, Error>) -> String {
    match seen {
        Ok(verdict) => remaining(verdict),
        Err(error) => reason(error),
    }
}

fn remaining(verdict: &Verdict) -> String {
    verdict.detail().states().map(|state| left(&state)).collect::<Vec<_>>().join(", ")
}

fn in_short(verdict: &Verdict) -> String {
    let denied = verdict.retry_after().map(|retry| format!(", denied for {}", rounded_up(retry)));
    let full = match full_in(verdict) {
        Duration::ZERO => String::new(),
        time => format!(", full in {}", rounded_up(time)),
    };
    format!("{}{}{full}", remaining(verdict), denied.unwrap_or_default())
}

fn cells(subject: &Subject, seen: &Result<Verdict, Error>) -> [String; 4] {
    match seen {
        Ok(verdict) => [
            subject.to_string(),
            remaining(verdict),
            in_time(verdict.retry_after().unwrap_or_default()),
            in_time(full_in(verdict)),
        ],
        Err(error) => [subject.to_string(), reason(error), "-".to_owned(), "-".to_owned()],
    }
}

/// When everything is there again.
fn full_in(verdict: &Verdict) -> Duration {
    verdict.detail().states().map(|state| state.reset).max().unwrap_or_default()
}
