//! `limit check`, `peek`, `refund` and `reset`: exit codes, what is printed, and what is on the server.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Instant;

use lockkeeper_faults::{FaultProxy, Reply};
use serde_json::Value;

use super::bench::{Bench, Output, Running, lockkeeper};

/// `lockkeeper limit VERB NAME KEY …`
fn limit(bench: &Bench, args: &[&str]) -> Output {
    bench.lockkeeper(&[&["limit"], args].concat())
}

fn json(bench: &Bench, args: &[&str]) -> (Option<i32>, Value) {
    let output = limit(bench, &[args, &["--json"]].concat());
    assert!(output.stdout.lines().count() == 1, "{output:?}");
    (output.code, serde_json::from_str(&output.stdout).unwrap())
}

#[test]
fn a_check_takes_until_it_is_denied_and_says_so_by_its_code() {
    let Some(bench) = Bench::new() else { return };
    let check = || limit(&bench, &["check", "login", "user:42", "--limit", "2/h fixed-window-from-first"]);
    for left in ["1 of 2", "0 of 2"] {
        let output = check();
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:?}");
        assert!(output.stdout.starts_with("login user:42 is allowed\n"), "{output:?}");
        assert!(output.stdout.contains(&format!("  remaining  {left}\n")), "{output:?}");
    }
    let output = check();
    assert_eq!((output.code, output.stderr.as_str()), (Some(75), ""), "{output:?}");
    assert!(output.stdout.starts_with("login user:42 is denied: come back in "), "{output:?}");
    assert!(output.stdout.contains("59m") || output.stdout.contains("1h"), "{output:?}");
    let never = limit(&bench, &["check", "login", "user:42", "--limit", "2/h", "--cost", "3"]);
    assert_eq!(never.code, Some(77));
    assert!(
        never.stdout.contains("can never be allowed: 3 is more than 2/1h token-bucket can hold"),
        "{never:?}"
    );
    let shut = limit(&bench, &["check", "login", "user:42", "--limit", "none"]);
    assert!(shut.code == Some(77) && shut.stdout.contains("lets nothing pass"), "{shut:?}");
    assert_eq!(limit(&bench, &["check", "login", "x", "--limit", "unlimited"]).code, Some(0));
    let quiet = limit(&bench, &["check", "-q", "login", "user:42", "--limit", "2/h fixed-window-from-first"]);
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (Some(75), "", ""));
}

#[test]
fn json_has_everything_with_units_in_the_names() {
    let Some(bench) = Bench::new() else { return };
    let limits = ["--limit", "3/h sliding-log", "--limit", "10/d fixed-window-from-first"];
    let args = [&["check", "api", "user:42", "--cost", "3"][..], &limits].concat();
    let (code, first) = json(&bench, &args);
    assert_eq!((code, &first["outcome"], first["granted"].as_u64()), (Some(0), &"allowed".into(), Some(3)));
    assert_eq!((first["limiter"].as_str(), first["subject"].as_str()), (Some("api"), Some("user:42")));
    assert_eq!((first["remaining"].as_u64(), first["source"].as_str()), (Some(0), Some("store")));
    assert!(first["retry_after_ms"].is_null() && first["refused_by"].is_null(), "{first}");
    assert_eq!(first["limits"][1]["remaining"], 7);
    let key = first["limits"][0]["key"].as_str().unwrap();
    assert!(key.starts_with("limit:api:l") && key.ends_with(":{user:42}"), "{key}");
    assert_eq!(bench.server.command(&["EXISTS", key]).unwrap(), Reply::Int(1));
    let (code, denied) = json(&bench, &args);
    assert_eq!((code, &denied["outcome"], denied["granted"].as_u64()), (Some(75), &"denied".into(), Some(0)));
    assert_eq!(denied["refused_by"], "3/1h sliding-log");
    let retry = denied["retry_after_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&retry), "{denied}");
    assert!(denied["limits"][0]["reset_ms"].as_u64().unwrap() <= 3_600_000, "{denied}");
    assert_eq!(denied["limits"][0]["capacity"], 3);
    let table = limit(&bench, &args).stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("is denied by 3/1h sliding-log: come back in"), "{table}");
    assert!(lines[1].starts_with("LIMIT") && lines[3].contains("7 of 10") && lines.len() == 4, "{table}");
}

#[test]
fn peek_takes_nothing_and_refund_and_reset_give_back() {
    let Some(bench) = Bench::new() else { return };
    let with = |args: &[&str]| limit(&bench, &[args, &["--limit", "5/d fixed-window-from-first"]].concat());
    let left = || {
        let (_, seen) = json(&bench, &["peek", "work", "a", "--limit", "5/d fixed-window-from-first"]);
        seen["remaining"].as_u64().unwrap()
    };
    assert_eq!(left(), 5);
    assert_eq!(bench.server.command(&["DBSIZE"]).unwrap(), Reply::Int(0), "looking writes nothing");
    let some = with(&["check", "work", "a", "--cost", "4"]);
    assert!(some.stdout.starts_with("work a is allowed: 4 taken\n"), "{some:?}");
    let rest = with(&["check", "work", "a", "--up-to", "4"]);
    assert!(rest.stdout.starts_with("work a is allowed: 1 of 4 taken\n"), "{rest:?}");
    let full = with(&["peek", "work", "a", "--cost", "2"]);
    assert!(full.code == Some(75) && full.stdout.starts_with("work a would be denied"), "{full:?}");
    let refund = with(&["refund", "work", "a", "--cost", "2"]);
    assert!(refund.code == Some(0) && refund.stdout.starts_with("work a: 2 given back"), "{refund:?}");
    assert_eq!(left(), 2);
    with(&["check", "work", "b"]);
    for (key, says) in [("*", "work * had nothing to reset\n"), ("a", "work a is reset\n")] {
        let reset = with(&["reset", "work", key]);
        assert_eq!((reset.code, reset.stdout.as_str()), (Some(0), says), "r139: {key} is meant literally");
    }
    assert_eq!(left(), 5);
    assert_eq!(bench.server.command(&["DBSIZE"]).unwrap(), Reply::Int(1), "b is as it was");
}

#[test]
fn a_wait_ends_when_it_is_allowed_or_at_once_where_it_cannot_be() {
    let Some(bench) = Bench::new() else { return };
    let check = |wait: &str| limit(&bench, &["check", "slow", "a", "--limit", "1/2s", "--wait", wait]);
    assert_eq!(check("5s").code, Some(0));
    let started = Instant::now();
    assert_eq!(check("1ms").code, Some(75));
    assert!(started.elapsed().as_millis() < 1900, "{:?}", started.elapsed());
    assert_eq!(check("30s").code, Some(0), "after two seconds at most");
}

#[test]
fn a_shell_loop_is_a_throttle() {
    let Some(bench) = Bench::new() else { return };
    let program = env!("CARGO_BIN_EXE_lockkeeper");
    let script = format!(
        "for i in 1 2 3; do until {program} limit check -q loop a --limit '2/1s burst=1'; do sleep 0.05; done; done; date"
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).env("LOCKKEEPER_URL", bench.server.url());
    let started = Instant::now();
    let output = Running::start(command).output();
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(started.elapsed().as_millis() >= 1000, "two of the three had to wait half a second each");
}

#[test]
fn kinds_keep_keys_apart_and_encoded_ones_are_found_again() {
    let Some(bench) = Bench::new() else { return };
    let subject = |args: &[&str]| {
        let (code, seen) = json(&bench, &[&["check", "who", "--limit", "1/d"], args].concat());
        assert_eq!(code, Some(0), "{args:?}: nobody else had used it");
        seen["subject"].as_str().unwrap().to_owned()
    };
    assert_eq!(subject(&["192.0.2.1"]), "192.0.2.1");
    assert_eq!(subject(&["192.0.2.1", "--kind", "ip"]), "@ip:192.0.2.1");
    assert_eq!(subject(&["192.0.2.1", "--kind", "user"]), "@user:192.0.2.1");
    assert_eq!(subject(&["2001:db8::1", "--kind", "ip"]), "@ip:2001:db8::/64");
    for (key, kind) in [("::ffff:192.0.2.1", "ip"), ("2001:db8::2", "ip")] {
        assert_eq!(limit(&bench, &["check", "who", key, "--kind", kind, "--limit", "1/d"]).code, Some(75));
    }
    let again = limit(&bench, &["peek", "who", "@user:192.0.2.1", "--encoded", "--limit", "1/d"]);
    assert_eq!(again.code, Some(75), "{again:?}");
    let other = limit(&bench, &["peek", "who", "@user:192.0.2.1", "--limit", "1/d"]);
    assert_eq!(other.code, Some(0), "plain text is no encoding");
    let mut odd: Vec<OsString> = ["limit", "check", "who", "--limit", "1/d", "--json"].map(Into::into).into();
    odd.push(OsString::from_vec(b"a\xff\n{b}*".to_vec()));
    let output = bench.lockkeeper(&odd);
    let seen: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(seen["subject"], "a%FF%0A%7Bb%7D*");
}

#[test]
fn wrong_usage_is_64_and_names_what_is_wrong_before_anybody_is_asked() {
    let url = "redis://127.0.0.1:1";
    let shapes: [(&[&str], &str); 17] = [
        (&["check", "login", "a"], "--limit"),
        (&["check", "login", "a", "--limit", "5"], "`5` has no `/`"),
        (&["check", "login", "a", "--limit", "-1/s"], "cannot be negative"),
        (&["check", "login", "a", "--limit", "5/s leaky"], "`leaky` is no algorithm"),
        (&["check", "login", "a", "--limit", "5/s", "--limit", "5/1s"], "given twice"),
        (&["check", "Log In", "a", "--limit", "5/s"], "`Log In` is no name"),
        (&["check", "login", "", "--limit", "5/s"], "empty"),
        (&["check", "login", "a", "--limit", "5/s", "--cost", "0"], "the cost is 0"),
        (
            &["refund", "login", "a", "--limit", "5/s", "--cost", "0"],
            "refund login: bad argument: the cost is 0",
        ),
        (&["check", "login", "a", "--limit", "5/s", "--cost", "-3"], "invalid value '-3' for '--cost <N>'"),
        (&["refund", "login", "a", "--limit", "5/s", "--cost", "-3"], "invalid value '-3' for '--cost <N>'"),
        (&["check", "login", "a", "--limit", "5/s", "--wait", "-1s"], "no duration such as 30s"),
        (&["check", "login", "a", "--limit", "5/s", "--wait", "soon"], "no duration such as 30s"),
        (&["check", "login", "a", "--limit", "5/s; 9/h"], "give --limit once for each"),
        (&["check", "login", "a", "--limit", "5/s", "--kind", "ip"], "`a` is no IP address"),
        (&["peek", "login", "a", "--limit", "5/s", "--kind", "Org"], "`Org`"),
        (&["reset", "login", "a\n", "--limit", "5/s", "--encoded"], "is no encoded subject"),
    ];
    for (args, says) in shapes {
        let all = [&["--url", url, "limit"], args].concat();
        let output = Running::start(lockkeeper(&all)).output();
        assert_eq!(output.code, Some(64), "{args:?} {output:?}");
        assert!(
            output.stderr.starts_with("lockkeeper: ") && output.stderr.contains(says),
            "{args:?} {output:?}"
        );
    }
}

#[test]
fn r127_a_server_that_is_away_is_69_and_no_denial() {
    let Some(bench) = Bench::new() else { return };
    let proxy = FaultProxy::start(([127, 0, 0, 1], bench.server.port()).into()).unwrap();
    proxy.black_hole();
    for url in ["redis://127.0.0.1:1", &proxy.url()] {
        for verb in ["check", "peek", "refund", "reset"] {
            let args = ["--url", url, "limit", verb, "login", "a", "--limit", "5/s"];
            let output = Running::start(lockkeeper(&args)).output();
            assert_eq!((output.code, output.stdout.as_str()), (Some(69), ""), "{verb} {output:?}");
            assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
        }
    }
}

#[test]
fn a_key_that_holds_something_else_is_65_and_is_left_alone() {
    let Some(bench) = Bench::new() else { return };
    let (_, seen) = json(&bench, &["peek", "login", "a", "--limit", "5/s"]);
    let key = seen["limits"][0]["key"].as_str().unwrap();
    bench.server.command(&["RPUSH", key, "x"]).unwrap();
    for verb in ["check", "peek", "refund", "reset"] {
        let output = limit(&bench, &[verb, "login", "a", "--limit", "5/s"]);
        assert!(output.code == Some(65) && output.stderr.contains(key), "{verb} {output:?}");
    }
    assert_eq!(bench.server.command(&["LLEN", key]).unwrap(), Reply::Int(1));
}
