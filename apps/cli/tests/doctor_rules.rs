//! The rules that `lockkeeper doctor` prints, on every product and version: they suffice, and nothing in them is idle.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not inside the test functions")]

use std::process::Command;

use lockkeeper_faults::{RedisServer, ServerKind, available};
use serde_json::Value;

const PASSWORD: &str = "hunter2";

fn doctor(args: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.env_remove("LOCKKEEPER_URL").env_remove("REDIS_URL").args(["doctor", "--json"]);
    let output = command.args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// The words of a feature's rule on this server.
fn rule(feature: &str, version: &str, prefixes: &[&str]) -> Vec<String> {
    let args = [&["--rules", "--feature", feature, "--redis-version", version], prefixes].concat();
    let rows = doctor(&args);
    rows[0]["rule"].as_str().unwrap().split(' ').map(str::to_owned).collect()
}

fn version(server: &RedisServer) -> String {
    let info = server.command(&["INFO", "server"]).unwrap();
    let text = info.as_str().unwrap();
    text.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap().to_owned()
}

fn set_user(server: &RedisServer, words: &[String]) {
    let start = ["ACL", "SETUSER", "app", "reset", "on", ">hunter2"];
    let words: Vec<&str> = start.into_iter().chain(words.iter().map(String::as_str)).collect();
    let reply = server.command(&words).unwrap();
    assert!(!reply.is_error(), "{words:?}: {reply:?}");
}

/// The finding about permissions that is not a note about other features.
fn finding(server: &RedisServer, feature: &str, prefixes: &[&str]) -> Value {
    let url = server.url().replace("redis://", &format!("redis://app:{PASSWORD}@"));
    let report = doctor(&[&["--url", &url, "--feature", feature], prefixes].concat());
    let found = report["findings"].as_array().unwrap();
    found
        .iter()
        .find(|finding| finding["check"] == "permissions")
        .unwrap_or_else(|| panic!("{report}"))
        .clone()
}

/// Of what a data server can be asked.
const FEATURES: [&str; 15] = [
    "locks",
    "waiting",
    "waiters",
    "inspecting",
    "listing",
    "probing",
    "permits",
    "limits",
    "sliding-logs",
    "once",
    "durability",
    "sentinel",
    "cluster",
    "quorum",
    "plain",
];

#[test]
fn with_the_printed_rule_nothing_is_missing_and_without_one_word_exactly_that_one() {
    for kind in ServerKind::ALL {
        if !available(kind) {
            continue;
        }
        let server = RedisServer::builder().kind(kind).start().unwrap();
        let version = version(&server);
        for feature in FEATURES {
            let words = rule(feature, &version, &[]);
            set_user(&server, &words);
            let found = finding(&server, feature, &[]);
            assert_eq!(found["level"], "ok", "{kind}, {feature}: {found}");
            for missing in words.iter().filter(|word| word.starts_with('+')) {
                let rest: Vec<String> = words.iter().filter(|word| *word != missing).cloned().collect();
                set_user(&server, &rest);
                let found = finding(&server, feature, &[]);
                let expected = format!("ACL SETUSER app {missing}");
                assert_eq!(found["commands"][0], expected, "{kind}, {feature}: {found}");
                assert!(found["items"].to_string().contains(&missing[1..]), "{kind}, {feature}: {found}");
            }
        }
    }
}

#[test]
fn without_its_keys_a_rule_is_missing_exactly_them_under_any_prefix() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let version = version(&server);
    for (prefix, pattern) in [("jobs:", "~jobs:*"), ("a[b]*", r"~a\[b\]\**"), ("", "~*")] {
        for (feature, option) in
            [("locks", "--prefix"), ("limits", "--limit-prefix"), ("once", "--once-prefix")]
        {
            let prefixes = [option, prefix];
            let mut words = rule(feature, &version, &prefixes);
            set_user(&server, &words);
            assert_eq!(finding(&server, feature, &prefixes)["level"], "ok", "{feature} {prefix}");
            words.retain(|word| !word.starts_with('~'));
            words.push("~other:*".to_owned());
            set_user(&server, &words);
            let found = finding(&server, feature, &prefixes);
            assert_eq!(found["level"], "problem", "{found}");
            assert_eq!(found["commands"][0], format!("ACL SETUSER app {pattern}"), "{found}");
        }
    }
}

#[test]
fn rules_need_no_server_and_unknown_features_are_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let output = command.args(["doctor", "--rules", "--feature", "locks,waiting"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap();
    assert!(output.status.success() && text.contains("# waiting: being told of releases"), "{text}");
    assert!(
        last.starts_with("ACL SETUSER app on >password resetkeys resetchannels -@all ~lock:* +eval "),
        "{text}"
    );
    assert!(last.contains("+client|tracking") && !last.contains('&'), "no channels: {text}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let output = command.args(["doctor", "--rules", "--feature", "lock"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(64) && text.contains("locks, waiting"), "{text}");
}
