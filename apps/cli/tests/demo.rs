//! `lockkeeper demo` as a black box: in one process, and over several on a real server.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not inside the test functions")]

use std::process::{Command, Output};

use lockkeeper_faults::{RedisServer, Reply, ServerKind, available};

/// Fewer rounds than by default, on a machine that runs other tests.
const SMALL: [&str; 5] = ["demo", "--workers", "60", "--rounds", "5"];

fn lockkeeper(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.env_remove("LOCKKEEPER_URL").env_remove("REDIS_URL").env_remove("LOCKKEEPER_LOG");
    command.args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing but the outcome is said");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The line that begins like this.
fn line<'a>(text: &'a str, beginning: &str) -> &'a str {
    let found = text.lines().find(|line| line.trim_start().starts_with(beginning));
    found.unwrap_or_else(|| panic!("no `{beginning}` in\n{text}"))
}

/// What each demonstration has to show.
fn check(text: &str, updates: u64) {
    let free = line(text, "Without a lock");
    let counter: u64 =
        free.split("counter says ").nth(1).unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(counter < updates, "{free}");
    assert!(free.ends_with(&format!("{} updates lost", updates - counter)), "{free}");
    let locked = line(text, "Under a lock");
    assert!(
        locked.ends_with(&format!("{updates} updates, the counter says {updates}: none lost")),
        "{locked}"
    );
    assert!(line(text, "A resource that checks fences").ends_with("refused, holds \"second\""), "{text}");
    assert!(line(text, "One that does not").ends_with("accepted, holds \"first, late\""), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn without_a_server_it_shows_all_three_parts() {
    let text = text(&lockkeeper(&SMALL));
    check(&text, 300);
    assert!(text.starts_with("Locks on memory://\n60 tasks"), "{text}");
}

#[test]
fn a_server_that_the_environment_names_is_left_alone() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let output = command.args(SMALL).env("REDIS_URL", "redis://127.0.0.1:1").output().unwrap();
    assert!(text(&output).starts_with("Locks on memory://"));
}

#[test]
fn over_processes_it_shows_the_same_and_cleans_up() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().password("hunter2").start().unwrap();
    let url = server.url().replace("redis://", "redis://:hunter2@");
    let text = text(&lockkeeper(&[&SMALL[..], &["--url", &url, "--processes", "3"]].concat()));
    check(&text, 300);
    assert!(text.contains("60 tasks in 3 processes") && !text.contains("hunter2"), "{text}");
    let keys = server.command(&["KEYS", "*"]).unwrap();
    for key in keys.as_array().unwrap().iter().filter_map(Reply::as_str) {
        assert!(key.starts_with("lock:~fence:"), "{key} is left behind");
        let left_ms = server.command(&["PTTL", key]).unwrap().as_int().unwrap();
        assert!(left_ms > 0, "{key} never expires");
    }
}

#[test]
fn as_json_it_is_one_object() {
    let json = text(&lockkeeper(&[&SMALL[..], &["--json"]].concat()));
    assert_eq!(json.lines().count(), 1);
    assert!(json.contains("\"under_lock\":{\"updates\":300,\"counter\":300,"), "{json}");
    assert!(json.contains("\"fenced_accepted\":false,\"plain_accepted\":true"), "{json}");
}

#[test]
fn a_server_that_is_away_is_named_in_one_line() {
    let output = lockkeeper(&["demo", "--url", "redis://:hunter2@127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(69));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.lines().count() == 1 && error.contains("127.0.0.1:1") && !error.contains("hunter2"),
        "{error}"
    );
}
