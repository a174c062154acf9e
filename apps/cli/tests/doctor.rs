//! `lockkeeper doctor` as a black box, on real servers.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not inside the test functions")]

use std::process::{Command, Output};

use lockkeeper_faults::{RedisServer, Reply, ServerKind, available};

struct Seen {
    code: Option<i32>,
    text: String,
}

fn doctor(args: &[&str]) -> Seen {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.env_remove("LOCKKEEPER_URL").env_remove("REDIS_URL");
    let Output { status, stdout, stderr } = command.arg("doctor").args(args).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(!text.contains("hunter2"), "a password is shown:\n{text}");
    assert!(!text.contains('\x1b'), "colours without a terminal:\n{text}");
    Seen { code: status.code(), text }
}

impl Seen {
    /// The lines of the finding whose first line has this level and contains this text.
    fn finding(&self, level: &str, title: &str) -> Option<String> {
        let is_head = |line: &str| !line.starts_with(' ');
        let lines: Vec<&str> = self.text.lines().collect();
        let at = lines.iter().position(|line| line.starts_with(level) && line.contains(title))?;
        let rest = lines[at + 1..].iter().take_while(|line| !is_head(line)).copied();
        Some([lines[at]].into_iter().chain(rest).collect::<Vec<_>>().join("\n"))
    }

    #[track_caller]
    fn must(&self, level: &str, title: &str) -> String {
        self.finding(level, title).unwrap_or_else(|| panic!("no {level} `{title}` in\n{}", self.text))
    }

    fn rule(&self) -> Vec<String> {
        let line = self.text.lines().map(str::trim).find(|line| line.starts_with("ACL SETUSER"));
        let line = line.unwrap_or_else(|| panic!("no rule in\n{}", self.text));
        line.split(' ').map(str::to_owned).collect()
    }
}

fn start(
    configure: impl FnOnce(lockkeeper_faults::ServerBuilder) -> lockkeeper_faults::ServerBuilder,
) -> Option<RedisServer> {
    available(ServerKind::Redis).then(|| configure(RedisServer::builder()).start().unwrap())
}

fn ask(server: &RedisServer, args: &[&str]) -> Reply {
    let reply = server.command(args).unwrap();
    assert!(!reply.is_error(), "{args:?}: {reply:?}");
    reply
}

/// Without `ACL DRYRUN` and permissions to read only.
fn is_before_7(server: &RedisServer) -> bool {
    ask(server, &["INFO", "server"]).as_str().is_some_and(|info| info.contains("redis_version:6."))
}

fn as_user(server: &RedisServer, user: &str) -> String {
    server.url().replace("redis://", &format!("redis://{user}:hunter2@"))
}

#[test]
fn a_clean_server_has_no_problem() {
    let Some(server) = start(|builder| builder.persistent().config("appendfsync", "always")) else { return };
    let seen = doctor(&["--url", &server.url()]);
    assert_eq!(seen.code, Some(0), "{}", seen.text);
    for title in
        ["Nothing is evicted", "Every write is on disk", "may do all that locks need", "No lock is held"]
    {
        seen.must("ok", title);
    }
    assert!(seen.text.ends_with("Nothing to complain about.\n"), "{}", seen.text);
    assert_eq!(ask(&server, &["DBSIZE"]).as_int(), Some(0), "it left something behind");
}

#[test]
fn a_policy_that_evicts_is_a_problem_until_its_command_was_given() {
    let Some(server) =
        start(|builder| builder.config("maxmemory-policy", "allkeys-lru").config("maxmemory", "64mb"))
    else {
        return;
    };
    let seen = doctor(&["--url", &server.url()]);
    assert_eq!(seen.code, Some(2), "{}", seen.text);
    let finding = seen.must("problem", "allkeys-lru can evict locks and records");
    assert!(finding.contains("CONFIG SET maxmemory-policy noeviction"), "{finding}");
    seen.must("warning", "A restart forgets every lock");
    ask(&server, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(doctor(&["--url", &server.url()]).code, Some(0));
}

#[test]
fn foreign_locks_without_expiry_and_other_keys_are_listed_without_secrets() {
    let Some(server) = start(|builder| builder) else { return };
    for at in 0..12 {
        ask(&server, &["SET", &format!("lock:old:{at}"), "3f2504e0-4f89-11d3-9a0c-0305e82c3301"]);
    }
    ask(&server, &["SET", "lock:fine", "foreign", "PX", "60000"]);
    ask(&server, &["SET", "other:key", "x"]);
    ask(&server, &["RPUSH", "lock:queue", "job"]);
    let seen = doctor(&["--url", &server.url()]);
    assert_eq!(seen.code, Some(0), "{}", seen.text);
    let endless = seen.must("warning", "12 locks never end");
    assert!(
        endless.contains("foreign `3f2504e0…` (36 bytes)") && endless.contains("and 2 more"),
        "{endless}"
    );
    assert_eq!(endless.matches("lock:old:").count(), 10, "{endless}");
    assert!(!seen.text.contains("4f89") && !seen.text.contains("lock:fine"), "{}", seen.text);
    let wrong = seen.must("warning", "1 key under the prefix is not a lock");
    assert!(wrong.contains("lock:queue"), "{wrong}");
}

/// Whatever is missing, one rule makes it whole: on every product and version.
#[test]
fn the_printed_rule_makes_the_finding_vanish() {
    for kind in ServerKind::ALL {
        if !available(kind) {
            continue;
        }
        let server = RedisServer::builder().kind(kind).start().unwrap();
        for (rules, expected) in LACKING {
            if is_before_7(&server) && rules.contains(&"%R~lock:*") {
                continue;
            }
            make_whole(&server, rules, expected);
        }
    }
}

/// Rules of a user, and what has to be among those that are printed.
const LACKING: [(&[&str], &str); 6] = [
    (&["+@all", "~lock:*", "-eval", "-time"], "+eval +time"),
    (&["+@all", "-acl", "~other:*"], "~lock:*"),
    (&["+@all", "%R~lock:*"], "~lock:*"),
    (&["+@all", "-@scripting", "-info", "-client", "-acl", "~lock:*"], "+eval +evalsha"),
    (&["-@all", "+acl|whoami", "+hello"], "~lock:*"),
    (&["-@all", "+hello"], "~lock:*"),
];

/// What waiting needs and locks do not is a warning, and no more.
#[test]
fn a_user_who_has_to_poll_is_warned() {
    for kind in ServerKind::ALL {
        if !available(kind) {
            continue;
        }
        let server = RedisServer::builder().kind(kind).start().unwrap();
        warned(&server, &["client|tracking"], "client|tracking (waiting: who waits is not told, and polls)");
        let notes = ["hset", "hdel", "hgetall", "hlen", "unlink"];
        warned(
            &server,
            &notes,
            "may not run hset, hdel, hgetall, hlen (for seeing who waits, and taking turns",
        );
    }
}

fn warned(server: &RedisServer, lacks: &[&str], item: &str) {
    // Before 7.0 a part of a command can be granted, and not taken away.
    let mut rules = vec!["ACL", "SETUSER", "app", "reset", "on", ">hunter2", "~lock:*", "+@all"];
    let taken: Vec<String> =
        lacks.iter().map(|name| format!("-{}", name.split('|').next().unwrap())).collect();
    rules.extend(taken.iter().map(String::as_str));
    let is_client = lacks[0].starts_with("client");
    rules.extend(is_client.then_some("+client|trackinginfo"));
    ask(server, &rules);
    let url = as_user(server, "app");
    let seen = doctor(&["--url", &url]);
    assert_eq!(seen.code, Some(0), "a warning is no problem\n{}", seen.text);
    let finding = seen.must("warning", "User app lacks permissions");
    let finding = finding.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(finding.contains(item), "{finding}");
    let grants: Vec<String> = lacks.iter().map(|name| format!("+{name}")).collect();
    assert_eq!(seen.rule()[3..], grants, "{finding}");
    ask(server, &seen.rule().iter().map(String::as_str).collect::<Vec<_>>());
    doctor(&["--url", &url]).must("ok", "User app may do all that locks need");
}

fn make_whole(server: &RedisServer, rules: &[&str], expected: &str) {
    ask(server, &[&["ACL", "SETUSER", "app", "reset", "on", ">hunter2"], rules].concat());
    let url = as_user(server, "app");
    let seen = doctor(&["--url", &url]);
    assert_eq!(seen.code, Some(2), "{rules:?}\n{}", seen.text);
    seen.must("problem", "User app lacks permissions");
    let rule = seen.rule();
    assert!(rule.join(" ").contains(expected), "{rules:?}: {rule:?}");
    ask(server, &rule.iter().map(String::as_str).collect::<Vec<_>>());
    let seen = doctor(&["--url", &url]);
    seen.must("ok", "User app may do all that locks need");
    assert_eq!(seen.code, Some(0), "{rules:?}\n{}", seen.text);
}

#[test]
fn an_administrator_can_examine_another_user() {
    let Some(server) = start(|builder| builder) else { return };
    if is_before_7(&server) {
        return;
    }
    ask(&server, &["ACL", "SETUSER", "app", "on", "nopass", "~jobs:*", "+@all", "-evalsha"]);
    let seen = doctor(&["--url", &server.url(), "--user", "app", "--prefix", "jobs:"]);
    let finding = seen.must("warning", "User app lacks permissions");
    assert!(finding.trim_end().ends_with("ACL SETUSER app +evalsha"), "{finding}");
    let seen = doctor(&["--url", &server.url(), "--user", "nobody"]);
    seen.must("problem", "There is no user nobody");
    assert_eq!(seen.code, Some(2), "{}", seen.text);
}

#[test]
fn a_server_that_tells_nothing_is_no_failure() {
    let Some(server) = start(|builder| builder) else { return };
    ask(&server, &["ACL", "SETUSER", "app", "on", ">hunter2", "~lock:*", "+@all", "-info", "-config"]);
    let seen = doctor(&["--url", &as_user(&server, "app")]);
    assert_eq!(seen.code, Some(0), "{}", seen.text);
    seen.must("note", "INFO and CONFIG GET refused");
}

#[test]
fn a_wrong_password_is_one_line_without_it() {
    let Some(server) = start(|builder| builder.password("right")) else { return };
    let seen = doctor(&["--url", &server.url().replace("redis://", "redis://:hunter2@")]);
    assert_eq!(seen.code, Some(69), "{}", seen.text);
    assert!(seen.text.lines().count() == 1 && seen.text.contains("authentication"), "{}", seen.text);
    assert_eq!(doctor(&["--url", &server.url()]).code, Some(69), "no password");
}

#[test]
fn a_server_that_is_away_is_one_line() {
    let seen = doctor(&["--url", "redis://:hunter2@127.0.0.1:1"]);
    assert_eq!((seen.code, seen.text.lines().count()), (Some(69), 1), "{}", seen.text);
}

#[test]
fn a_primary_and_its_replica_are_told_apart_and_compared() {
    let Some(primary) = start(|builder| builder) else { return };
    let port = primary.port().to_string();
    let Some(replica) = start(|builder| builder.config("replicaof", format!("127.0.0.1 {port}"))) else {
        return;
    };
    ask(&primary, &["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let info = ask(&primary, &["INFO", "replication"]);
        if info.as_str().is_some_and(|info| info.contains("state=online")) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{info:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let seen = doctor(&["--url", &primary.url()]);
    let finding = seen.must("warning", "A failover can lose locks");
    assert!(finding.contains("CONFIG SET min-replicas-to-write 1"), "{finding}");
    let clocks = seen.must("ok", "The replicas' clocks agree");
    assert!(clocks.contains(&format!("127.0.0.1:{}: agrees", replica.port())), "{clocks}");
    let seen = doctor(&["--url", &replica.url()]);
    assert_eq!(seen.code, Some(2), "{}", seen.text);
    let finding = seen.must("problem", "This is a replica");
    assert!(finding.contains(&format!("127.0.0.1:{port}")), "{finding}");
}

#[test]
fn a_cluster_is_told_what_it_means() {
    let Some(server) = start(|builder| builder.config("cluster-enabled", "yes")) else { return };
    let finding = doctor(&["--url", &server.url()]).must("warning", "This is a node of a cluster");
    assert!(finding.contains("{lock}:"), "{finding}");
}

#[test]
fn in_memory_there_is_nothing_to_examine_and_json_is_one_object() {
    let seen = doctor(&["--url", "memory://"]);
    assert_eq!(seen.code, Some(0));
    assert!(seen.text.contains("no server to examine"), "{}", seen.text);
    let Some(server) =
        start(|builder| builder.config("maxmemory-policy", "volatile-lru").config("maxmemory", "64mb"))
    else {
        return;
    };
    let seen = doctor(&["--url", &server.url(), "--json"]);
    assert_eq!((seen.code, seen.text.lines().count()), (Some(2), 1), "{}", seen.text);
    assert!(seen.text.contains("\"worst\":\"problem\"") && seen.text.contains("\"check\":\"eviction\""));
}

#[test]
fn a_limit_that_never_ends_is_found() {
    let Some(server) = start(|builder| builder) else { return };
    let check = |key: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        command.args(["limit", "check", "login", key, "--limit", "5/d", "--json", "--url", &server.url()]);
        let seen = command.output().unwrap();
        let seen: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap();
        seen["limits"][0]["key"].as_str().unwrap().to_owned()
    };
    let key = check("user:42");
    check("user:43");
    doctor(&["--url", &server.url()]).must("ok", "2 keys of limits with an expiry");
    assert_eq!(ask(&server, &["PERSIST", &key]).as_int(), Some(1));
    ask(&server, &["SET", "limit:other", "no key of ours"]);
    let seen = doctor(&["--url", &server.url()]);
    let found = seen.must("warning", "1 key of a limit has no expiry");
    assert!(
        found.contains(&key) && found.contains("lockkeeper limit reset") && seen.code == Some(0),
        "{found}"
    );
    check("user:42");
    doctor(&["--url", &server.url()]).must("ok", "2 keys of limits with an expiry");
}
