//! `lockkeeper demo` as a black box: the flash sale inside one process, and over several on a real server.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not inside the test functions")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use lockkeeper_faults::{RedisServer, Reply, ServerKind, available};
use serde_json::Value;

/// Fewer buyers than by default, on a machine that runs other tests.
const SMALL: [&str; 5] = ["demo", "--buyers", "600", "--stock", "40"];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.env_remove("LOCKKEEPER_URL").env_remove("REDIS_URL").env_remove("LOCKKEEPER_DATABASE");
    command.env_remove("LOCKKEEPER_LOG").args(args);
    command
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing but the outcome is said");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn outcome(args: &[&str]) -> Value {
    let json = text(&command(&[&SMALL[..], &["--json"], args].concat()).output().unwrap());
    assert_eq!(json.lines().count(), 1, "{json}");
    serde_json::from_str(&json).unwrap()
}

/// The protected sale sold exactly what there was, to different buyers.
fn check(outcome: &Value) {
    let protected = &outcome["protected"];
    for (name, expected) in [
        ("stock", 40),
        ("sold", 40),
        ("oversold", 0),
        ("duplicate_orders", 0),
        ("contradictions", 0),
        ("remaining", 0),
    ] {
        assert_eq!(protected[name], expected, "{name}: {outcome}");
    }
    assert_eq!(outcome["naive"]["stock"], 40);
    for act in ["naive", "protected"] {
        assert!(outcome[act]["latency"]["p99_ms"].as_f64().unwrap() > 0.0, "{outcome}");
        assert!(outcome[act]["refused"]["sold-out"].as_u64().unwrap() > 0, "{outcome}");
    }
    let orders = &outcome["orders"];
    assert_eq!((&orders["served"], &orders["charges"]), (&orders["customers"], &orders["customers"]));
    // The one that was sent again, and the key that was used for another order.
    assert!(orders["replayed"].as_u64() >= orders["customers"].as_u64(), "{outcome}");
    assert_eq!(orders["different"], orders["customers"]);
}

#[test]
fn without_a_server_it_oversells_and_then_it_does_not() {
    let outcome = outcome(&[]);
    check(&outcome);
    assert!(outcome["naive"]["oversold"].as_u64().unwrap() > 0, "{outcome}");
    assert!(outcome["naive"]["duplicate_orders"].as_u64().unwrap() > 0, "{outcome}");
}

#[test]
fn it_reads_as_a_table_of_eighty_columns() {
    let text = text(&command(&SMALL).output().unwrap());
    for beginning in
        ["stock ", "sold (orders written) ", "oversold ", "duplicate orders ", "half answered within "]
    {
        assert!(text.lines().any(|line| line.starts_with(beginning)), "no `{beginning}` in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn over_processes_one_of_which_is_killed_it_does_the_same() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().password("hunter2").start().unwrap();
    let url = server.url().replace("redis://", "redis://:hunter2@");
    let outcome = outcome(&["--url", &url, "--processes", "2"]);
    check(&outcome);
    assert!(!outcome.to_string().contains("hunter2"), "{outcome}");
    for key in server.command(&["KEYS", "*"]).unwrap().as_array().unwrap().iter().filter_map(Reply::as_str) {
        let left_ms = server.command(&["PTTL", key]).unwrap().as_int().unwrap();
        assert!(left_ms != -1, "{key} never expires");
    }
}

#[test]
fn a_server_that_is_away_is_named_in_one_line() {
    let output = command(&["demo", "--url", "redis://:hunter2@127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    let error = String::from_utf8(output.stderr).unwrap();
    let is_named = error.lines().count() == 1 && error.contains("127.0.0.1:1");
    assert!(is_named && !error.contains("hunter2"), "{error}");
}

#[test]
fn an_address_that_is_taken_is_said_before_anything_is_played() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = command(&["demo", "--serve", &address]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(64), 0), "{output:?}");
}

/// A demo that stays open; killed when a test fails.
struct Open(std::process::Child);

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn its_page_stays_open_until_ctrl_c() {
    let mut command = command(&[&SMALL[..], &["--serve", "127.0.0.1:0"]].concat());
    let mut demo = Open(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(demo.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find(|line| line.contains("the shop's page is at http://")).unwrap();
    let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("<html"), "{page}");
    let pid = rustix::process::Pid::from_child(&demo.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(demo.0.wait().unwrap().code(), Some(0), "Ctrl-C is its wanted end");
}

#[test]
fn what_is_interrupted_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&["demo", "--buyers", "20000", "--stock", "5000"]);
    command.env("TMPDIR", folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut demo = Open(command.spawn().unwrap());
    let is_empty = || folder.path().read_dir().unwrap().next().is_none();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while is_empty() {
        assert!(std::time::Instant::now() < until, "it made no database");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // By then it listens: it does so before it makes anything.
    rustix::process::kill_process(rustix::process::Pid::from_child(&demo.0), rustix::process::Signal::INT)
        .unwrap();
    assert_eq!(demo.0.wait().unwrap().code(), Some(130));
    assert!(is_empty(), "{:?}", folder.path().read_dir().unwrap().collect::<Vec<_>>());
}
