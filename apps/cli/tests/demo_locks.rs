//! `lockkeeper demo locks` as a black box: in one process, and over several on a real server.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not inside the test functions")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lockkeeper::telemetry::METRICS;
use lockkeeper_faults::{RedisServer, Reply, ServerKind, available};

/// Fewer rounds than by default, on a machine that runs other tests.
const SMALL: [&str; 6] = ["demo", "locks", "--workers", "60", "--rounds", "5"];

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
    for beginning in ["handed over", "waited", "refused", "renewed", "lost", "late"] {
        line(text, beginning);
    }
    let line_of = line(text, "Waiting in line");
    assert!(line_of.contains("24 tasks"), "{text}");
    assert!(line(text, "degraded").contains("cannot be reached: taken inside this process only"), "{text}");
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
        // A note of who waits may stay for the 2.5 s that it lasts.
        let is_side_key = key.starts_with("lock:~fence:") || key.starts_with("lock:~wait:");
        assert!(is_side_key, "{key} is left behind");
        let left_ms = server.command(&["PTTL", key]).unwrap().as_int().unwrap();
        assert!(left_ms != -1, "{key} never expires");
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
    let output = lockkeeper(&["demo", "locks", "--url", "redis://:hunter2@127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(69));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.lines().count() == 1 && error.contains("127.0.0.1:1") && !error.contains("hunter2"),
        "{error}"
    );
}

/// A demo that stays open; killed when a test fails.
struct Open(std::process::Child);

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of a demo's standard error, and its process.
fn open(args: &[&str]) -> (Open, impl Iterator<Item = String> + use<>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.env_remove("LOCKKEEPER_URL").env_remove("REDIS_URL").env_remove("LOCKKEEPER_LOG");
    command
        .args(SMALL)
        .args(["--metrics", "127.0.0.1:0"])
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    (Open(child), lines)
}

/// One request, without a client's help.
fn request(address: &str, line: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "{line} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Scrapes a demo when it is over.
fn scraped(args: &[&str]) -> (Open, String) {
    let (demo, mut lines) = open(&[&["--keep-open", "forever"], args].concat());
    let first = lines.next().unwrap();
    let address = first.strip_prefix("metrics at http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{first}"));
    let over = lines.find(|line| line.contains("the demo is over"));
    assert!(over.is_some(), "it said nothing when it was over");
    assert!(request(address, "GET /").starts_with("HTTP/1.1 404 "));
    assert!(request(address, "POST /metrics").starts_with("HTTP/1.1 405 "));
    let answer = request(address, "GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    (demo, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// The value of a series, the sum where it has several.
fn value(page: &str, name: &str, labels: &[&str]) -> f64 {
    let of_name =
        page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "));
    let wanted = of_name.filter(|(of, _)| labels.iter().all(|label| of.contains(label)));
    wanted.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
}

fn check_page(page: &str) {
    // It is about locks: it makes no limiter.
    for metric in METRICS.iter().filter(|metric| metric.name.starts_with("redis_lock_")) {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        assert!(page.contains(&format!("\n# TYPE {} {kind}\n", metric.name)), "{} in\n{page}", metric.name);
        let is_shown = |line: &str| {
            let end = line.strip_prefix(metric.name);
            end.is_some_and(|end| end.starts_with(['{', ' ']) || end.starts_with("_count"))
        };
        assert!(page.lines().any(is_shown), "{} has no series in\n{page}", metric.name);
    }
    assert!(!page.contains("lockkeeper-demo"), "a key is a label:\n{page}");
    for (name, labels) in [
        ("redis_lock_acquire_total", &["result=\"failed\"", "reason=\"busy\""][..]),
        ("redis_lock_acquire_total", &["result=\"failed\"", "reason=\"unreachable\""]),
        ("redis_lock_handovers_total", &["way=\"local\""]),
        ("redis_lock_handovers_total", &["way=\"swap\""]),
        ("redis_lock_handovers_total", &["way=\"server\""]),
        ("redis_lock_watchdog_extend_total", &["result=\"success\""]),
        ("redis_lock_lost_total", &["reason=\"expired\""]),
        ("redis_lock_late_releases_total", &["class=\"trouble\""]),
        ("redis_lock_degraded_total", &[]),
    ] {
        assert!(value(page, name, labels) > 0.0, "{name}{labels:?} in\n{page}");
    }
    assert_eq!(value(page, "redis_lock_waiters", &[]), 0.0, "nobody waits any more");
    assert_eq!(value(page, "redis_lock_held", &[]), 0.0, "nothing is held any more");
}

#[test]
fn every_metric_can_be_scraped_when_it_is_over() {
    let (mut demo, page) = scraped(&[]);
    check_page(&page);
    let pid = rustix::process::Pid::from_child(&demo.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(demo.0.wait().unwrap().code(), Some(0), "Ctrl-C is its wanted end");
}

#[test]
fn every_metric_can_be_scraped_on_a_server() {
    if available(ServerKind::Redis) {
        let server = RedisServer::builder().start().unwrap();
        check_page(&scraped(&["--url", &server.url()]).1);
    }
}

#[test]
fn an_address_that_is_taken_is_a_usage_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let output = lockkeeper(&["demo", "locks", "--metrics", &taken.local_addr().unwrap().to_string()]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
}
