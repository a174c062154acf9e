//! The report for people and for programs.

use std::io::IsTerminal;
use std::process::ExitCode;

use super::PROBLEMS;
use super::finding::{Finding, Level, Report};
use crate::common;

/// Lines are no longer than this, except commands, which are meant to be copied.
const WIDTH: usize = 80;
const INDENT: usize = 9;

/// There is no server.
pub(super) fn nothing(json: bool) -> anyhow::Result<()> {
    const TITLE: &str = "memory:// is a store inside one process: there is no server to examine";
    if json {
        let finding = Finding::new("mode", Level::Note, TITLE);
        let report = Report::new("memory://".to_owned(), "memory".to_owned(), None, vec![finding]);
        return common::print_json(&report);
    }
    common::print(&format!("{TITLE}."))
}

/// Prints a report, and says with which code to exit.
pub(super) fn report(report: &Report, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        common::print_json(report)?;
    } else {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        common::print(&text(report, colour))?;
    }
    Ok(if report.worst == Level::Problem { ExitCode::from(PROBLEMS) } else { ExitCode::SUCCESS })
}

fn text(report: &Report, colour: bool) -> String {
    let away = report.round_trip_us.map_or(String::new(), |us| format!(", {:.1} ms away", us as f64 / 1e3));
    let mut lines = vec![printable(&report.address), printable(&report.server) + &away, String::new()];
    for finding in &report.findings {
        push(&mut lines, finding, colour);
    }
    if lines.last().is_some_and(|line| !line.is_empty()) {
        lines.push(String::new());
    }
    lines.push(summary(report));
    lines.join("\n")
}

fn push(lines: &mut Vec<String>, finding: &Finding, colour: bool) {
    let level = format!("{:INDENT$}", finding.level.name());
    let level = if colour { painted(&level, finding.level) } else { level };
    lines.push(format!("{level}{}", printable(&finding.title)));
    lines.extend(wrapped(&finding.seen, "", ""));
    lines.extend(finding.items.iter().flat_map(|item| wrapped(item, "- ", "  ")));
    lines.extend(wrapped(&finding.advice, "", ""));
    lines.extend(finding.commands.iter().map(|command| format!("{:INDENT$}  {}", "", printable(command))));
    if finding.level > Level::Ok {
        lines.push(String::new());
    }
}

/// What a server says must not steer the terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}

fn painted(text: &str, level: Level) -> String {
    let code = match level {
        Level::Ok => "32",
        Level::Note => "36",
        Level::Warning => "33",
        Level::Problem => "1;31",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

fn summary(report: &Report) -> String {
    let count = |level: Level| match report.count(level) {
        0 => None,
        1 => Some(format!("1 {}", level.name())),
        more => Some(format!("{more} {}s", level.name())),
    };
    let counts: Vec<String> =
        [Level::Problem, Level::Warning, Level::Note].into_iter().filter_map(count).collect();
    match (counts.is_empty(), report.worst) {
        (true, _) => "Nothing to complain about.".to_owned(),
        (_, Level::Problem) => format!("{}.", counts.join(", ")),
        _ => format!("No problem; {}.", counts.join(", ")),
    }
}

/// `text` in indented lines, the first one after `head`, the others after `rest`.
fn wrapped(text: &str, head: &str, rest: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && INDENT + head.len() + line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&printable(word));
    }
    if !line.is_empty() {
        lines.push(line);
    }
    let lead = |at: usize| if at == 0 { head } else { rest };
    lines.iter().enumerate().map(|(at, line)| format!("{:INDENT$}{}{line}", "", lead(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_80_columns_and_commands_are_not() {
        let finding =
            Finding::new("x", Level::Warning, "t").seen("word ".repeat(60)).command("c".repeat(100));
        let report = Report::new("a".into(), "s".into(), None, vec![finding]);
        let text = text(&report, false);
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > WIDTH).collect();
        assert_eq!(long.len(), 1, "{text}");
        assert!(long[0].ends_with(&"c".repeat(100)) && text.ends_with("No problem; 1 warning."));
    }
}
