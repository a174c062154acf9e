//! Certificates and passwords on the command line, and plain locks: every command, as a black box.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not inside the test functions")]

use std::path::Path;
use std::process::Command;

use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_testkit::pki::{Authority, Of, save};

struct Seen {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn lockkeeper(args: &[&str], variables: &[(&str, &str)]) -> Seen {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    for name in
        ["LOCKKEEPER_URL", "REDIS_URL", "LOCKKEEPER_TLS_CA", "LOCKKEEPER_TLS_CERT", "LOCKKEEPER_TLS_KEY"]
    {
        command.env_remove(name);
    }
    let output = command.args(args).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Seen { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

const COMMANDS: [&[&str]; 11] = [
    &["run", "--wait", "100ms", "k", "--", "true"],
    &["ls"],
    &["show", "k"],
    &["release", "--force", "--yes", "k"],
    &["limit", "check", "l", "u", "--limit", "5/min"],
    &["limit", "peek", "l", "u", "--limit", "5/min"],
    &["limit", "reset", "l", "u", "--limit", "5/min"],
    &["once", "ls"],
    &["once", "show", "o", "k"],
    &["doctor"],
    &["doctor", "--feature", "locks"],
];

/// Nowhere in what is printed or, at the finest level, logged.
#[test]
fn no_command_shows_a_password() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().password("right").start().unwrap();
    let wrong = server.url().replace("redis://", "redis://:hunter2@");
    for url in [
        &*wrong,
        "redis://:hunter2@127.0.0.1:1",
        "rediss://:hunter2@127.0.0.1:1",
        "redis://:hunter2@h:port",
        "redis://:hunter2@h?x=1",
        "unix:///nowhere/socket?pass=hunter2",
        "redis+sentinel://:hunter2@127.0.0.1:1/main?sentinel_password=hunter2",
        "redis+sentinel://h/main?sentinel_password=abc&hunter2",
        "redis+cluster://:hunter2@127.0.0.1:1,127.0.0.1:2",
        "redis+quorum://:hunter2@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?max_lease=60s&x=hunter2",
    ] {
        for args in COMMANDS {
            let seen = lockkeeper(&[&["--url", url], args].concat(), &[("LOCKKEEPER_LOG", "trace")]);
            assert!(
                matches!(seen.code, Some(64 | 69 | 70)),
                "{url} {args:?}: {:?} {}",
                seen.code,
                seen.stderr
            );
            assert!(seen.stderr.contains("lockkeeper: "), "{url} {args:?}: {}", seen.stderr);
            let shown = seen.stdout + &seen.stderr;
            assert!(!shown.contains("hunter2"), "{url} {args:?}: {shown}");
        }
    }
}

/// It would go on looking for ever: nothing about these passes by itself.
#[test]
fn watching_ends_at_once_at_what_does_not_pass() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().password("right").start().unwrap();
    let wrong = server.url().replace("redis://", "redis://:hunter2@");
    for args in [
        &["watch", "k"][..],
        &["limit", "watch", "l", "u", "--limit", "5/min"],
        &["limit", "watch", "l", "--limit", "5/min"],
    ] {
        let seen = lockkeeper(&[&["--url", &wrong], args].concat(), &[]);
        assert_eq!(seen.code, Some(69), "{args:?}: {}", seen.stderr);
        assert!(
            seen.stderr.contains("WRONGPASS") || seen.stderr.contains("authentication failed"),
            "{}",
            seen.stderr
        );
    }
    let seen = lockkeeper(&["--url", &server.url(), "watch", &"k".repeat(5000)], &[]);
    assert_eq!(seen.code, Some(64), "{}", seen.stderr);
}

#[test]
fn a_majority_refuses_to_do_without_scripts() {
    let url = "redis+quorum://127.0.0.1:1,127.0.0.1:2";
    for args in [&["ls"][..], &["doctor"], &["run", "k", "--", "true"]] {
        let seen = lockkeeper(&[&["--url", url, "--without-scripts"], args].concat(), &[]);
        assert!(seen.code == Some(64) && seen.stderr.contains("need scripts"), "{args:?}: {}", seen.stderr);
    }
}

/// A server that asks its clients for certificates.
fn mutual(authority: &Authority, folder: &Path) -> RedisServer {
    let (certificate, key) = authority.sign(Of::Server).save(folder, "server");
    let ca = save(folder, "ca.pem", &authority.certificate);
    RedisServer::builder().tls(&certificate, &key, &ca).config("tls-auth-clients", "yes").start().unwrap()
}

#[test]
fn certificates_come_from_options_and_variables() {
    if !available(ServerKind::Redis) {
        return;
    }
    let (folder, ours) = (tempfile::tempdir().unwrap(), Authority::new("ours"));
    let server = mutual(&ours, folder.path());
    let (cert, key) = ours.sign(Of::Server).save(folder.path(), "client");
    let (_, other) = ours.sign(Of::Server).save(folder.path(), "other");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (url, ca) = (server.url(), file("ca.pem"));
    let (cert, key, other) =
        (cert.display().to_string(), key.display().to_string(), other.display().to_string());
    let options = ["--url", &*url, "--ca", &*ca, "--cert", &*cert, "--key", &*key];
    for args in [&["run", "k", "--", "true"][..], &["ls"], &["doctor"]] {
        let seen = lockkeeper(&[&options, args].concat(), &[]);
        assert_eq!(seen.code, Some(0), "{args:?}: {}", seen.stderr);
    }
    let variables = [
        ("LOCKKEEPER_URL", &*url),
        ("LOCKKEEPER_TLS_CA", &*ca),
        ("LOCKKEEPER_TLS_CERT", &*cert),
        ("LOCKKEEPER_TLS_KEY", &*key),
    ];
    assert_eq!(lockkeeper(&["ls"], &variables).code, Some(0));

    let mistakes: [(&[&str], i32, &str); 6] = [
        (&["--ca", &ca, "--cert", &cert], 64, "a certificate needs its --key"),
        (&["--ca", &ca, "--key", &key], 64, "a key needs its --cert"),
        (&["--ca", "/nowhere/ca.pem"], 64, "--ca /nowhere/ca.pem: No such file"),
        (&["--ca", &key], 64, "is not PEM"),
        (&["--ca", &ca, "--cert", &cert, "--key", &other], 64, "is not that of its certificate"),
        (&["--ca", &ca], 69, "ertificate"),
    ];
    for (options, code, words) in mistakes {
        let seen = lockkeeper(&[&["--url", &url], options, &["ls"]].concat(), &[]);
        assert_eq!(seen.code, Some(code), "{options:?}: {}", seen.stderr);
        assert!(seen.stderr.contains(words) && seen.stderr.lines().count() == 1, "{words}: {}", seen.stderr);
        assert!(!seen.stderr.contains("PRIVATE"), "{}", seen.stderr);
    }
}

#[test]
fn l103_without_scripts_a_command_runs_under_a_plain_lock_without_a_fence() {
    if !available(ServerKind::Valkey) {
        return;
    }
    let server = RedisServer::builder().kind(ServerKind::Valkey).start().unwrap();
    let rule = ["ACL", "SETUSER", "plain", "on", ">pw", "~*", "+@all", "-@scripting"];
    assert!(!server.command(&rule).unwrap().is_error());
    let url = server.url().replace("redis://", "redis://plain:pw@");
    let run = ["run", "k", "--", "sh", "-c", "echo fence=$LOCKKEEPER_FENCE."];
    let seen = lockkeeper(&[&["--url", &url, "--without-scripts"], &run[..]].concat(), &[]);
    assert_eq!((seen.code, seen.stdout.as_str()), (Some(0), "fence=.\n"), "{}", seen.stderr);
    let seen = lockkeeper(&[&["--url", &url], &run[..]].concat(), &[]);
    assert!(seen.code == Some(69) && seen.stderr.contains("EVALSHA"), "{}", seen.stderr);
}
