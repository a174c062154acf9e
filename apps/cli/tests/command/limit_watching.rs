//! `limit watch`: who is found, what is said of them, and when.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::bench::{Bench, Output};
use super::terminal::Terminal;

const LIMIT: &str = "10/d fixed-window-from-first";

fn check(bench: &Bench, args: &[&str]) -> Output {
    let output = bench.lockkeeper(&[&["limit", "check"], args].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    output
}

fn start(bench: &Bench, args: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut command =
        bench.command(&[&["limit", "watch", "--every", "100ms", "--for", "30s"], args].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    (child, lines)
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn it_finds_who_has_used_something_and_says_each_change_once() {
    let Some(bench) = Bench::new() else { return };
    let (child, mut lines) = start(&bench, &["login", "--limit", LIMIT]);
    assert!(
        lines.next().unwrap().ends_with(" login (10/1d fixed-window-from-first): nobody has used anything")
    );
    check(&bench, &["login", "user:1", "--limit", LIMIT]);
    assert!(lines.next().unwrap().contains(" user:1 9 of 10, full in "));
    check(&bench, &["other", "user:1", "--limit", LIMIT]);
    check(&bench, &["login", "user:3", "--limit", "11/d"]);
    check(&bench, &["login", "42", "--kind", "user", "--cost", "10", "--limit", LIMIT]);
    let next = lines.next().unwrap();
    assert!(next.contains(" @user:42 0 of 10, denied for ") && next.contains(", full in "), "{next}");
    bench.lockkeeper(&["limit", "reset", "login", "user:1", "--limit", LIMIT]);
    let next = lines.next().unwrap();
    assert!(next.ends_with(" user:1 10 of 10"), "who is gone has everything again: {next}");
    end(child);
}

#[test]
fn json_has_those_with_least_left_first() {
    let Some(bench) = Bench::new() else { return };
    let limits = ["--limit", LIMIT, "--limit", "100/d sliding-log"];
    for (who, cost) in [("a", "1"), ("b", "7"), ("c", "4")] {
        check(&bench, &[&["api", who, "--cost", cost][..], &limits].concat());
    }
    // The same limit by itself counts apart.
    check(&bench, &["api", "alone", "--limit", LIMIT]);
    let args = [&["--json", "limit", "watch", "--count", "1", "api"][..], &limits].concat();
    let output = bench.lockkeeper(&args);
    let rows: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> = rows.iter().map(|row| (row["subject"].as_str(), row["remaining"].as_u64())).collect();
    assert_eq!(seen, [(Some("b"), Some(3)), (Some("c"), Some(6)), (Some("a"), Some(9))], "{output:?}");
    assert!(rows[0]["at_ms"].as_u64() > Some(1_600_000_000_000) && rows[0]["limits"][1]["remaining"] == 93);
    let named = bench.lockkeeper(&[&args[..], &["z", "a"]].concat());
    assert_eq!((named.code, named.stdout.lines().count()), (Some(0), 2), "only those: {named:?}");
}

#[test]
fn a_prefix_is_meant_literally() {
    let Some(bench) = Bench::new() else { return };
    for (prefix, who) in [("l*[x]?:", "ours"), ("lll[x]?:", "theirs"), ("l*x?:", "theirs")] {
        check(&bench, &["api", who, "--limit", LIMIT, "--prefix", prefix]);
    }
    let output =
        bench.lockkeeper(&["limit", "watch", "--count", "1", "api", "--limit", LIMIT, "--prefix", "l*[x]?:"]);
    assert!(output.stdout.lines().count() == 1 && output.stdout.contains(" ours 9 of 10"), "{output:?}");
}

#[test]
fn a_server_that_is_away_is_said_once_and_looked_for_again() {
    let Some(bench) = Bench::new() else { return };
    check(&bench, &["login", "a", "--limit", LIMIT]);
    let (child, mut lines) = start(&bench, &["login", "--limit", LIMIT]);
    assert!(lines.next().unwrap().contains(" a 9 of 10"));
    bench.server.kill().unwrap();
    let away = lines.next().unwrap();
    assert!(away.contains(" no answer: "), "{away}");
    bench.server.restart().unwrap();
    check(&bench, &["login", "b", "--limit", LIMIT]);
    let back: Vec<String> = lines.by_ref().take(2).collect();
    assert!(back.iter().any(|line| line.contains(" b 9 of 10")), "{back:?}");
    end(child);
    let nothing = bench.lockkeeper(&["limit", "watch", "--count", "1", "login", "--limit", "unlimited"]);
    assert!(nothing.code == Some(64) && nothing.stderr.contains("count nothing"), "{nothing:?}");
}

#[test]
fn at_a_terminal_it_draws_a_table_over_itself_until_it_is_interrupted() {
    let (Some(bench), terminal) = (Bench::new(), Terminal::new()) else { return };
    let mut command = bench.command(&["limit", "watch", "--every", "100ms", "login", "--limit", LIMIT]);
    command.env("TERM", "xterm").stdin(Stdio::null()).stdout(terminal.stdio()).stderr(terminal.stdio());
    let mut child = command.spawn().unwrap();
    terminal.wait_for("nobody has used anything");
    terminal.wait_for("\x1b[2A");
    check(&bench, &["login", "user:42", "--limit", LIMIT]);
    terminal.wait_for("user:42");
    terminal.wait_for("9 of 10");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
