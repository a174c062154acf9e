//! `lockkeeper doctor` and its rules on several servers: users are not copied from one to another, so each is asked.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not inside the test functions")]

use std::process::{Command, Output};

use lockkeeper_faults::{ClusterServers, RedisServer, SentinelGroup, ServerKind, available};
use serde_json::Value;

fn lockkeeper(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.env_remove("LOCKKEEPER_URL").env_remove("REDIS_URL").args(args).output().unwrap()
}

/// What is found about `check`, worst first.
fn findings(args: &[&str], check: &str) -> Vec<Value> {
    let output = lockkeeper(&[&["doctor", "--json"], args].concat());
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)));
    let all = report["findings"].as_array().unwrap().iter();
    all.filter(|finding| finding["check"] == check).cloned().collect()
}

#[track_caller]
fn only(args: &[&str], check: &str) -> Value {
    let found = findings(args, check);
    assert_eq!(found.len(), 1, "{args:?}: {found:?}");
    found.into_iter().next().unwrap()
}

/// The words that are printed for all of these together.
fn rule(features: &str) -> Vec<String> {
    let output = lockkeeper(&["doctor", "--rules", "--redis-version", "7.0", "--feature", features]);
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.lines().rev().find_map(|line| line.strip_prefix("ACL SETUSER app on >password "));
    words.unwrap().split(' ').map(str::to_owned).collect()
}

fn allow(server: &RedisServer, words: &[String]) {
    let start = ["ACL", "SETUSER", "app", "reset", "on", ">hunter2"];
    let words: Vec<&str> = start.into_iter().chain(words.iter().map(String::as_str)).collect();
    let reply = server.command(&words).unwrap();
    assert!(!reply.is_error(), "{words:?}: {reply:?}");
}

fn but(words: &[String], missing: &str) -> Vec<String> {
    words.iter().filter(|word| *word != missing).cloned().collect()
}

const OF_LOCKS: &str = "locks,waiting,waiters,inspecting,listing,probing";

#[test]
fn a_majority_opens_and_runs_with_the_printed_rule_and_each_server_is_asked() {
    if !available(ServerKind::Redis) {
        return;
    }
    let servers: Vec<_> = (0..3).map(|_| RedisServer::builder().start().unwrap()).collect();
    let words = rule("locks,quorum");
    servers.iter().for_each(|server| allow(server, &words));
    let places: Vec<_> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redis+quorum://app:hunter2@{}", places.join(","));
    for args in [&["quorum", "init"][..], &["run", "a", "--", "true"], &["quorum", "status"]] {
        let output = lockkeeper(&[&["--url", &url], args].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let marker = || servers[1].command(&["GET", "~quorum"]).unwrap();
    let before = marker();
    let found = only(&["--url", &url, "--feature", "locks,quorum"], "permissions");
    assert_eq!(found["level"], "ok", "{found}");

    // Nobody names a feature: those of locks, and that of the form.
    let words = rule(&format!("{OF_LOCKS},quorum"));
    servers.iter().for_each(|server| allow(server, &words));
    assert_eq!(only(&["--url", &url], "permissions")["level"], "ok");
    // One server alone lacks one word.
    for (missing, granted) in [("~~quorum", "~~quorum"), ("+set", "+set")] {
        allow(&servers[1], &but(&words, missing));
        let found = findings(&["--url", &url], "permissions");
        assert_eq!((found.len(), &found[0]["level"]), (2, &Value::from("problem")), "{found:?}");
        assert_eq!(found[0]["commands"][0], format!("ACL SETUSER app {granted}"), "{found:?}");
        assert!(found[0]["items"].to_string().contains(&format!("on {}", places[1])), "{found:?}");
        let named = findings(&["--url", &url, "--feature", "quorum", "--user", "app"], "permissions");
        assert!(named.iter().all(|one| one["level"] == "note"), "not an administrator: {named:?}");
    }
    let administrator = url.replace("app:hunter2@", "");
    let found = findings(&["--url", &administrator, "--user", "app", "--feature", "quorum"], "permissions");
    assert_eq!((found.len(), &found[0]["level"]), (2, &Value::from("problem")), "{found:?}");
    assert_eq!(marker(), before, "looking changes no marker");
}

#[test]
fn each_server_of_a_cluster_is_asked() {
    if !available(ServerKind::Redis) {
        return;
    }
    let cluster = ClusterServers::minimal(&RedisServer::builder()).unwrap();
    let words = rule(&format!("{OF_LOCKS},cluster"));
    cluster.nodes().iter().for_each(|server| allow(server, &words));
    let url = cluster.url().replace("redis+cluster://", "redis+cluster://app:hunter2@");
    let found = findings(&["--url", &url], "permissions");
    assert_eq!(found[0]["level"], "note", "only what nobody named: {found:?}");
    assert!(found.iter().any(|one| one["level"] == "ok"), "{found:?}");
    for missing in ["+asking", "+eval"] {
        allow(&cluster.nodes()[2], &but(&words, missing));
        let found = findings(&["--url", &url], "permissions");
        assert_eq!(found[0]["level"], "problem", "{missing}: {found:?}");
        assert_eq!(found[0]["commands"][0], format!("ACL SETUSER app {missing}"), "{found:?}");
        let place = format!("on 127.0.0.1:{}", cluster.nodes()[2].port());
        assert!(found[0]["items"].to_string().contains(&place), "{found:?}");
    }
}

#[test]
fn what_sentinels_allow_is_asked_of_them_and_not_guessed() {
    if !available(ServerKind::Redis) {
        return;
    }
    let group = SentinelGroup::builder().replicas(1).start().unwrap();
    let words = rule("sentinels");
    let check = "sentinel-permissions";
    group.sentinels().iter().for_each(|sentinel| allow(sentinel, &words));
    let url = format!("{}?sentinel_user=app&sentinel_password=hunter2", group.url());
    assert_eq!(only(&["--url", &url, "--feature", "sentinels"], check)["level"], "ok");
    assert!(findings(&["--url", &url, "--feature", "sentinels"], "permissions").is_empty());
    assert!(findings(&["--url", &url], check).is_empty());
    let alone = group.servers()[0].url();
    let found = only(&["--url", &alone, "--feature", "sentinels"], check);
    assert!(found["level"] == "note" && found["title"].to_string().contains("not examined here"), "{found}");
    for (missing, level) in [
        ("+sentinel|ckquorum", "warning"),
        ("+subscribe", "warning"),
        ("&+switch-master", "warning"),
        ("+sentinel|master", "problem"),
    ] {
        allow(&group.sentinels()[1], &but(&words, missing));
        // One that may not be asked at all still leaves two who name the primary.
        let found = only(&["--url", &url], check);
        assert_eq!(found["level"], level, "{missing}: {found}");
        assert!(found["commands"][0].to_string().contains(missing), "{found}");
        let place = format!("127.0.0.1:{}: ", group.sentinels()[1].port());
        assert!(found["items"][0].to_string().contains(&place), "{found}");
    }
}

/// Who has chosen plain locks is judged by what those need.
#[test]
fn without_scripts_the_rule_of_plain_locks_suffices() {
    if !available(ServerKind::Valkey) {
        return;
    }
    let server = RedisServer::builder().kind(ServerKind::Valkey).start().unwrap();
    let words = rule("plain,probing");
    allow(&server, &words);
    let url = server.url().replace("redis://", "redis://app:hunter2@");
    let plain = ["--url", &url, "--without-scripts"];
    assert_eq!(only(&plain, "permissions")["level"], "ok");
    assert_eq!(findings(&["--url", &url], "permissions")[0]["level"], "problem", "with scripts it does not");
    allow(&server, &but(&words, "+pttl"));
    let found = only(&plain, "permissions");
    assert!(found["level"] == "problem" && found["commands"][0] == "ACL SETUSER app +pttl", "{found}");
}

#[test]
fn a_user_that_does_not_exist_is_a_problem() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let found = only(&["--url", &server.url(), "--user", "nobody"], "permissions");
    assert_eq!((&found["level"], &found["title"]), (&"problem".into(), &"There is no user nobody".into()));
}

#[test]
fn certificates_for_a_url_without_tls_are_wrong_usage() {
    let output = lockkeeper(&["--url", "redis://127.0.0.1:1", "--ca", "/dev/null", "ls"]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(64) && words.contains("rediss://"), "{words}");
}

#[test]
fn a_number_of_servers_that_brings_nothing_is_named() {
    let servers =
        |count: u16| (1..=count).map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    for (count, words) in [(2, "neither may be away"), (4, "as many may be away as of 3")] {
        let found = only(&["--url", &format!("redis+quorum://{}", servers(count))], "servers");
        assert!(found["level"] == "warning" && found["title"].as_str().unwrap().contains(words), "{found}");
    }
    assert!(findings(&["--url", &format!("redis+quorum://{}", servers(3))], "servers").is_empty());
}
