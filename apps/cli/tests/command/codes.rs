//! Exit codes, environment, standard streams, and what is said about wrong usage.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use lockkeeper_faults::{FaultProxy, RedisServer};

use super::bench::{Bench, HOLD, Output, Running, lockkeeper, wait_for};

#[test]
fn c68_exit_codes_pass_through() {
    let Some(bench) = Bench::new() else { return };
    bench.touch("not-executable");
    let run = |command: &[&str]| {
        let args: Vec<&str> = ["run", "k", "--"].iter().chain(command).copied().collect();
        let output = bench.lockkeeper(&args);
        assert!(!bench.is_held("lock:k"), "the lock is released after {command:?}");
        output
    };
    for code in [0, 1, 42, 126] {
        let output = run(&["sh", "-c", &format!("exit {code}")]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(code), ""));
    }
    let output = run(&["./missing"]);
    assert_eq!(output.code, Some(127));
    assert!(output.stderr.contains("./missing: there is no such command"), "{output:?}");
    assert_eq!(run(&["./not-executable"]).code, Some(126));
    assert_eq!(run(&["sh", "-c", "kill -KILL $$"]).code, Some(137));
}

#[test]
fn c70_a_nested_run_shows_the_inner_lock() {
    let Some(bench) = Bench::new() else { return };
    let program = env!("CARGO_BIN_EXE_lockkeeper");
    let output = bench.lockkeeper(&["run", "A", "--", program, "run", "--lease", "7s", "B", "--", "env"]);
    assert_eq!(output.code, Some(0));
    let value = |name: &str| -> Vec<String> {
        let lines = output.stdout.lines();
        lines.filter_map(|line| line.strip_prefix(&format!("{name}=")).map(str::to_owned)).collect()
    };
    assert_eq!(value("LOCKKEEPER_KEY"), ["lock:B"]);
    assert_eq!(value("LOCKKEEPER_LEASE_MS"), ["7000"]);
    assert!(value("LOCKKEEPER_FENCE")[0].parse::<u64>().unwrap() > 0);
    assert!(value("LOCKKEEPER_TOKEN")[0].contains('@'));
}

#[test]
fn c76_busy_with_x_is_silent_and_does_not_run() {
    let Some(bench) = Bench::new() else { return };
    bench.server.command(&["SET", "lock:k", "somebody", "PX", "60000"]).unwrap();
    let output = bench.run(&["-x", "k"], "touch ran").output();
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (Some(0), "", ""));
    assert!(!bench.path("ran").exists());
}

#[test]
fn busy_names_the_holder_and_does_not_run() {
    let Some(bench) = Bench::new() else { return };
    let holder = bench.run(&["--owner", "billing", "k"], HOLD);
    bench.wait_for_file("holds");
    let output = bench.run(&["--wait", "100ms", "k"], "touch ran").output();
    assert_eq!(output.code, Some(75));
    let one_line = output.stderr.lines().count() == 1;
    assert!(one_line && output.stderr.contains("lock:k is busy: held by"), "{output:?}");
    assert!(output.stderr.contains(&format!(":{}:", holder.process().0)), "{output:?}");
    assert!(output.stderr.contains(":billing"), "{output:?}");
    assert!(!bench.path("ran").exists());
}

fn usage(args: &[&str], url: Option<&str>) -> Output {
    let mut command = lockkeeper(args);
    if let Some(url) = url {
        command.env("LOCKKEEPER_URL", url);
    }
    let output = Running::start(command).output();
    assert_eq!(output.code, Some(64), "{args:?} {output:?}");
    assert!(output.stderr.starts_with("lockkeeper: "), "{output:?}");
    output
}

#[test]
fn wrong_usage_is_64_and_says_what_is_wrong() {
    let url = Some("redis://127.0.0.1:1");
    let shapes: [(&[&str], Option<&str>, &str); 10] = [
        (&["run", "k", "--", "true"], None, "LOCKKEEPER_URL"),
        (&["run", "k", "--", "true"], Some("memory://"), "one process"),
        (&["ls"], Some("memory://"), "one process"),
        (&["run", "k", "--"], url, "COMMAND"),
        (&["run", "--lease", "soon", "k", "--", "true"], url, "soon"),
        (&["run", "--lease", "20ms", "k", "--", "true"], url, "too short"),
        (&["run", "--lease", "10s", "--grace", "3s", "k", "--", "true"], url, "quarter"),
        (&["run", "--min-hold", "2s", "--max-hold", "1s", "k", "--", "true"], url, "--min-hold"),
        (&["run", "--json", "k", "--", "true"], url, "--json"),
        (&["release", "k"], url, "--token"),
    ];
    for (args, url, says) in shapes {
        let output = usage(args, url);
        assert!(output.stderr.contains(says), "{args:?} {output:?}");
    }
}

#[test]
fn without_a_command_the_help_is_shown() {
    let output = Running::start(lockkeeper::<&str>(&[])).output();
    assert_eq!((output.code, output.stdout.as_str()), (Some(64), ""));
    assert!(output.stderr.starts_with("Distributed locks on Redis"), "{output:?}");
    let help = Running::start(lockkeeper(&["run", "--help"])).output();
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.contains("LOCKKEEPER_FENCE") && help.stdout.contains("128 + n"), "{help:?}");
}

#[test]
fn a_malformed_url_is_64_and_its_password_is_not_shown() {
    for url in ["redis://:hunter2@h:port", "redis://:hunter2@", "redis://:hunter2@h/x", "hunter2"] {
        for args in [&["run", "k", "--", "true"][..], &["ls"], &["show", "k"]] {
            let output = usage(args, Some(url));
            assert!(!output.stderr.contains("hunter2") && output.stderr.lines().count() == 1, "{output:?}");
        }
    }
}

#[test]
fn the_url_comes_from_the_option_then_from_either_variable() {
    let Some(bench) = Bench::new() else { return };
    let url = bench.server.url();
    let nowhere = "redis://127.0.0.1:1";
    let code = |args: &[&str], ours: &str, common: &str| {
        let mut command = lockkeeper(args);
        Running::start({
            command.env("LOCKKEEPER_URL", ours).env("REDIS_URL", common);
            command
        })
        .output()
        .code
    };
    assert_eq!(code(&["ls", "--url", &url], nowhere, nowhere), Some(0));
    assert_eq!(code(&["--url", &url, "ls"], nowhere, nowhere), Some(0));
    assert_eq!(code(&["ls"], &url, nowhere), Some(0));
    assert_eq!(code(&["ls"], "", &url), Some(0));
    assert_eq!(code(&["ls"], nowhere, &url), Some(69));
}

#[test]
fn a_missing_silent_or_refusing_server_is_69_within_a_bound() {
    let Some(silent) = Bench::new() else { return };
    let proxy = FaultProxy::start(([127, 0, 0, 1], silent.server.port()).into()).unwrap();
    proxy.black_hole();
    let refusing = RedisServer::builder().password("hunter2").start().unwrap();
    for url in ["redis://127.0.0.1:1".to_owned(), proxy.url(), refusing.url()] {
        let started = Instant::now();
        let mut command = silent.command(&["run", "k", "--", "touch", "ran"]);
        command.env("LOCKKEEPER_URL", &url);
        let output = Running::start(command).output();
        assert_eq!(output.code, Some(69), "{url} {output:?}");
        assert!(
            output.stderr.starts_with("lockkeeper: ") && output.stderr.lines().count() == 1,
            "{output:?}"
        );
        assert!(started.elapsed() < Duration::from_secs(8), "{url}: {:?}", started.elapsed());
    }
    assert!(!silent.path("ran").exists());
}

#[test]
fn a_key_that_is_no_lock_is_65_and_is_left_alone() {
    let Some(bench) = Bench::new() else { return };
    bench.server.command(&["RPUSH", "lock:k", "a"]).unwrap();
    let output = bench.run(&["k"], "touch ran").output();
    assert_eq!(output.code, Some(65), "{output:?}");
    assert!(!bench.path("ran").exists() && bench.is_held("lock:k"));
}

#[test]
fn c79_standard_input_reaches_the_command() {
    let Some(bench) = Bench::new() else { return };
    let input = b"0123456789abcde\n".repeat(64 * 1024);
    let output = Running::with_input(bench.command(&["run", "k", "--", "cksum"]), &input).output();
    assert_eq!(output.code, Some(0));
    let count = output.stdout.split_whitespace().nth(1).unwrap();
    assert_eq!(count, input.len().to_string());
}

#[test]
fn a_key_need_not_be_text_and_prefix_or_exact_say_where_it_is() {
    let Some(bench) = Bench::new() else { return };
    let key = OsStr::from_bytes(b"a\xff\n*");
    let script = r#"printf %s "$LOCKKEEPER_KEY" | od -An -tx1"#;
    let output = |options: &[&str]| {
        let mut args: Vec<OsString> = vec!["run".into()];
        args.extend(options.iter().map(Into::into));
        args.extend([key.to_owned(), "--".into(), "sh".into(), "-c".into(), script.into()]);
        bench.lockkeeper(&args).stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(output(&[]), "6c 6f 63 6b 3a 61 ff 0a 2a");
    assert_eq!(output(&["--prefix", "x:"]), "78 3a 61 ff 0a 2a");
    assert_eq!(output(&["--exact"]), "61 ff 0a 2a");
}

#[test]
fn l89_a_long_wait_outlasts_the_holder() {
    let Some(bench) = Bench::new() else { return };
    let mut holder = bench.run(&["k"], HOLD);
    bench.wait_for_file("holds");
    let waiting = bench.run(&["--wait", "2h", "k"], "touch ran");
    let forever = bench.run(&["--wait-forever", "k"], "touch ran-too");
    let started = Instant::now();
    wait_for("three seconds", || started.elapsed() > Duration::from_secs(3));
    assert!(!bench.path("ran").exists());
    bench.touch("go");
    assert_eq!(holder.wait().code(), Some(0));
    assert_eq!((waiting.output().code, forever.output().code), (Some(0), Some(0)));
    assert!(bench.path("ran").exists() && bench.path("ran-too").exists());
}
