//! `watch`: in lines, in JSON, at a terminal, and while the server is away.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use super::bench::{Bench, HOLD, Running, lockkeeper, wait_for};
use super::terminal::Terminal;

fn looks(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_look_is_an_object_and_changes_are_counted() {
    let Some(bench) = Bench::new() else { return };
    let mut command = bench.command(&["--json", "watch", "--every", "100ms", "--for", "30s", "k"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut rows = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let first = rows.next().unwrap();
    assert_eq!((&first["state"], first["changes_seen"].as_u64()), (&Value::from("free"), Some(0)));
    assert!(first["at_ms"].as_u64().unwrap() > 1_600_000_000_000 && first["key"] == "lock:k");
    let holder = bench.run(&["k"], HOLD);
    bench.wait_for_file("holds");
    let waiter = bench.run(&["--wait", "30s", "k"], "true");
    let waiting = rows.find(|row| row["waiting"] == 1).unwrap();
    assert_eq!((&waiting["state"], waiting["changes_seen"].as_u64()), (&Value::from("held"), Some(1)));
    let keeper = waiting["waiters"][0]["keeper"].as_str().unwrap();
    assert!(keeper.contains(&format!(":{}:", waiter.process().0)), "{waiting}");
    bench.touch("go");
    assert_eq!((holder.output().code, waiter.output().code), (Some(0), Some(0)));
    let after = rows.find(|row| row["state"] == "free" && row["changes_seen"].as_u64() > Some(1)).unwrap();
    assert!(after["changes_seen_per_second"].as_f64().unwrap() > 0.0, "{after}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn it_ends_by_count_or_by_time_with_a_line_for_each_look() {
    let Some(bench) = Bench::new() else { return };
    let output = bench.lockkeeper(&["watch", "--every", "100ms", "--count", "3", "k"]);
    assert_eq!((output.code, output.stdout.lines().count(), output.stderr.as_str()), (Some(0), 3, ""));
    assert!(output.stdout.lines().all(|line| line.ends_with(" free, 0 changes seen")), "{output:?}");
    assert!(!output.stdout.contains('\x1b'), "no redrawing without a terminal");
    let output = bench.lockkeeper(&["watch", "--every", "1h", "--for", "100ms", "k"]);
    assert_eq!((output.code, output.stdout.lines().count()), (Some(0), 1), "it looks once at least");
    bench.server.command(&["RPUSH", "lock:list", "x"]).unwrap();
    let output = bench.lockkeeper(&["watch", "--count", "1", "list"]);
    assert!(output.code == Some(65) && output.stdout.contains("not a lock"), "{output:?}");
    for bad in [["--every", "99ms"], ["--every", "2h"], ["--count", "0"]] {
        assert_eq!(bench.lockkeeper(&[&["watch", "k"][..], &bad].concat()).code, Some(64));
    }
}

#[test]
fn a_server_that_is_away_is_said_and_looked_for_again() {
    let Some(bench) = Bench::new() else { return };
    let mut command = bench.command(&["watch", "--every", "100ms", "--for", "30s", "k"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains(" free"));
    bench.server.kill().unwrap();
    let away = lines.find(|line| line.contains("cannot be reached")).unwrap();
    assert!(away.contains(" no answer: "), "{away}");
    bench.server.restart().unwrap();
    lines.find(|line| line.contains(" free")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut nobody = lockkeeper(&["--url", "redis://:hunter2@127.0.0.1:1", "watch", "--count", "1", "k"]);
    let output = Running::start({
        nobody.env_remove("LOCKKEEPER_URL");
        nobody
    })
    .output();
    assert!(output.code == Some(69) && !output.stdout.contains("hunter2"), "{output:?}");
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let Some(bench) = Bench::new() else { return };
    let mut child =
        bench.command(&["watch", "--every", "100ms", "k"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    wait_for("its end", || child.try_wait().unwrap().is_some());
}

#[test]
fn at_a_terminal_it_draws_over_itself_until_it_is_interrupted() {
    let (Some(bench), terminal) = (Bench::new(), Terminal::new()) else { return };
    let mut command = bench.command(&["watch", "--every", "100ms", "k"]);
    command.env("TERM", "xterm").stdin(Stdio::null()).stdout(terminal.stdio()).stderr(terminal.stdio());
    let mut child = command.spawn().unwrap();
    terminal.wait_for("lock:k is free");
    terminal.wait_for("\x1b[4A");
    let holder = bench.run(&["k"], HOLD);
    terminal.wait_for("lock:k is held");
    terminal.wait_for("Ctrl-C ends");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    bench.touch("go");
    assert_eq!(holder.output().code, Some(0));
}

#[test]
fn json_says_what_went_wrong() {
    let output =
        Running::start(lockkeeper(&["--url", "redis://127.0.0.1:1", "--json", "watch", "--count", "1", "k"]))
            .output();
    let row = &looks(&output.stdout)[0];
    assert!(row["error"].as_str().unwrap().contains("cannot be reached") && row["key"] == "lock:k", "{row}");
    assert!(row.get("state").is_none() && row["changes_seen"] == 0, "{row}");
}
