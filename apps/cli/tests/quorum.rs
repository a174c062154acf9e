//! The command on a majority of independent servers.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not inside the test functions")]

use std::process::{Command, Output};

use lockkeeper_faults::{RedisServer, ServerKind, available};

struct Seen {
    code: Option<i32>,
    text: String,
}

impl Seen {
    #[track_caller]
    fn must(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.text);
        for part in parts {
            assert!(self.text.contains(part), "no `{part}` in\n{}", self.text);
        }
    }
}

fn lockkeeper(url: &str, args: &[&str]) -> Seen {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.env("LOCKKEEPER_URL", url).env_remove("REDIS_URL");
    let Output { status, stdout, stderr } = command.args(args).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(!text.contains("hunter2"), "a password is shown:\n{text}");
    Seen { code: status.code(), text }
}

fn three() -> Option<(Vec<RedisServer>, String)> {
    let servers = available(ServerKind::Redis)
        .then(|| (0..3).map(|_| RedisServer::builder().password("hunter2").start().unwrap()))?;
    let servers: Vec<_> = servers.collect();
    let places: Vec<_> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redis+quorum://:hunter2@{}?max_lease=60s", places.join(","));
    Some((servers, url))
}

fn set(server: &RedisServer, key: &str, token: &str) {
    assert!(!server.command(&["SET", key, token, "PX", "60000"]).unwrap().is_error());
}

#[test]
fn a_majority_is_opened_once_and_its_standing_is_shown() {
    let Some((servers, url)) = three() else { return };
    lockkeeper(&url, &["quorum", "status"]).must(69, &["abstains for", "0 of 3 servers vote"]);
    lockkeeper(&url, &["run", "a", "--", "true"])
        .must(69, &["0 of 3 servers vote", "abstains", "such as `lockkeeper quorum wait`"]);
    lockkeeper(&url, &["quorum", "init"]).must(0, &["votes"]);
    lockkeeper(&url, &["quorum", "status"]).must(0, &["3 of 3 servers vote, and 2 are needed"]);
    lockkeeper(&url, &["quorum", "init"]).must(64, &["votes already"]);

    servers[0].kill().unwrap();
    servers[0].restart().unwrap();
    let seen = lockkeeper(&url, &["quorum", "status", "--json"]);
    seen.must(0, &["\"standing\":\"abstains\"", "\"standing\":\"votes\""]);
    let other = url.replace("max_lease=60s", "max_lease=5s");
    lockkeeper(&other, &["quorum", "status"])
        .must(69, &["majority of 3 with max_lease=60s", "this URL says 3 with max_lease=5s"]);
    lockkeeper(&format!("redis://:hunter2@127.0.0.1:{}", servers[1].port()), &["quorum", "status"])
        .must(64, &["redis+quorum://"]);
}

#[test]
fn locks_are_run_under_listed_shown_and_released() {
    let Some((servers, url)) = three() else { return };
    lockkeeper(&url, &["quorum", "init"]).must(0, &[]);
    lockkeeper(&url, &["run", "a", "--", "sh", "-c", "echo ran $LOCKKEEPER_FENCE"]).must(0, &["ran 1"]);
    for server in &servers[..2] {
        set(server, "lock:a", "somebody");
    }
    set(&servers[2], "lock:b", "alone");
    lockkeeper(&url, &["ls"]).must(0, &["lock:a"]);
    assert!(!lockkeeper(&url, &["ls"]).text.contains("lock:b"), "one of three is no majority");
    lockkeeper(&url, &["show", "a"]).must(0, &["is held"]);
    lockkeeper(&url, &["show", "b"]).must(0, &["is free", "only"]);
    lockkeeper(&url, &["run", "--wait", "0s", "a", "--", "true"]).must(75, &[]);
    let shown = lockkeeper(&url, &["show", "a", "--json"]).text;
    let id = shown.split("\"holder_id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    lockkeeper(&url, &["release", "a", "--force", "--holder-id", &id, "--yes"]).must(0, &[]);
    lockkeeper(&url, &["show", "a"]).must(0, &["is free"]);
    let limited = lockkeeper(&url, &["limit", "check", "l", "u", "--limit", "1/s"]);
    assert!(limited.code != Some(0) && limited.text.contains("has locks only"), "{}", limited.text);
}

#[test]
fn one_server_that_is_demoted_or_of_another_majority_stops_nobody() {
    let Some((servers, url)) = three() else { return };
    lockkeeper(&url, &["quorum", "init"]).must(0, &[]);
    let odd = &servers[2];
    let marker = odd.command(&["GET", "~quorum"]).unwrap().as_str().unwrap().to_owned();
    let (ours, _) = marker.rsplit_once(' ').unwrap();
    assert!(!odd.command(&["SET", "~quorum", &format!("{ours} {:016x}", 7)]).unwrap().is_error());
    lockkeeper(&url, &["run", "a", "--", "echo", "ran"]).must(0, &["ran"]);
    lockkeeper(&url, &["doctor"]).must(0, &["warning", "2 of 3 servers vote", "of other servers"]);
    let port = servers[0].port().to_string();
    assert!(!odd.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap().is_error());
    lockkeeper(&url, &["run", "a", "--", "echo", "ran"]).must(0, &["ran"]);
    lockkeeper(&url, &["doctor"]).must(0, &["warning", "2 of 3 servers vote", "is a replica"]);
    assert!(!servers[1].command(&["REPLICAOF", "127.0.0.1", &port]).unwrap().is_error());
    lockkeeper(&url, &["run", "a", "--", "echo", "ran"]).must(69, &["is a replica"]);
    lockkeeper(&url, &["doctor"]).must(2, &["1 of 3 servers vote"]);
}

#[test]
fn a_key_that_nobody_can_decide_hides_no_other() {
    let Some((servers, url)) = three() else { return };
    lockkeeper(&url, &["quorum", "init"]).must(0, &[]);
    for server in &servers {
        set(server, "lock:a", "somebody");
    }
    set(&servers[0], "lock:odd", "somebody");
    servers[2].kill().unwrap();
    lockkeeper(&url, &["ls"]).must(0, &["lock:a", "1 lock", "lock:odd: held or free"]);
    lockkeeper(&url, &["ls", "--json"]).must(0, &["\"key\":\"lock:a\"", "lock:odd: held or free"]);
    lockkeeper(&url, &["show", "a"]).must(0, &["is held"]);
    lockkeeper(&url, &["show", "odd"]).must(69, &["lock:odd", "they do not say"]);
}

#[test]
fn watching_ends_where_a_majority_refuses_the_password() {
    let Some((servers, url)) = three() else { return };
    lockkeeper(&url, &["quorum", "init"]).must(0, &[]);
    let wrong = url.replace("hunter2", "other");
    let started = std::time::Instant::now();
    let seen = lockkeeper(&wrong, &["watch", "a", "--for", "60s"]);
    assert!(seen.code == Some(69) && started.elapsed().as_secs() < 30, "{:?} {}", seen.code, seen.text);
    assert!(seen.text.contains("authentication failed"), "{}", seen.text);
    drop(servers);
}

#[test]
fn doctor_examines_all_servers_together() {
    let Some((servers, url)) = three() else { return };
    lockkeeper(&url, &["quorum", "init"]).must(0, &[]);
    lockkeeper(&url, &["doctor"])
        .must(0, &["3 of 3 servers vote", "The servers' clocks agree", "abstains for max_lease"]);
    let kept = format!("{url}&persistent=yes");
    lockkeeper(&kept, &["doctor"]).must(2, &["the URL says persistent=yes, and the server may forget"]);
    servers[1].kill().unwrap();
    servers[2].kill().unwrap();
    lockkeeper(&url, &["doctor"]).must(2, &["1 of 3 servers vote", "cannot be asked"]);
    let twice =
        url.replace(&format!("127.0.0.1:{}", servers[1].port()), &format!("localhost:{}", servers[0].port()));
    lockkeeper(&twice, &["doctor"]).must(2, &["same server as"]);
}

#[test]
fn short_lived_clients_bring_no_vote_back_and_whoever_waits_does() {
    let Some((servers, url)) = three() else { return };
    let url = url.replace("max_lease=60s", "max_lease=3s");
    lockkeeper(&url, &["quorum", "init"]).must(0, &["3 of 3 servers vote"]);
    lockkeeper(&url, &["quorum", "wait"]).must(0, &["3 of 3 servers vote"]);
    servers[0].kill().unwrap();
    servers[0].restart().unwrap();
    let stay = "some client has stayed connected for max_lease";
    lockkeeper(&url, &["quorum", "wait", "--limit", "500ms"]).must(75, &["abstains for", "2 of 3", stay]);
    lockkeeper(&url, &["quorum", "status"]).must(0, &["abstains for", stay]);
    lockkeeper(&url, &["quorum", "wait", "--limit", "20s"]).must(0, &["abstains for", "3 of 3 servers vote"]);
    lockkeeper(&url, &["quorum", "status"]).must(0, &["3 of 3 servers vote"]);
    // Other words in the markers: no waiting helps.
    let other = url.replace("max_lease=3s", "max_lease=5s");
    lockkeeper(&other, &["quorum", "wait"]).must(69, &["is refused"]);
    lockkeeper(&url.replace("quorum", "sentinel").replace('?', "/s?"), &["quorum", "wait"]).must(64, &[]);
}
