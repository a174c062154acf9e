//! `release`: with the token, or by force.

use super::bench::{Bench, HOLD, Running};

fn held_by_somebody() -> Option<Bench> {
    let bench = Bench::new()?;
    bench.server.command(&["SET", "lock:k", "a-secret-token", "PX", "60000"]).unwrap();
    Some(bench)
}

#[test]
fn a_token_releases_its_own_lock_and_no_other() {
    let Some(bench) = held_by_somebody() else { return };
    std::fs::write(bench.path("token"), "a-secret-token\n").unwrap();
    let wrong = bench.lockkeeper(&["release", "k", "--token", "another"]);
    assert_eq!(wrong.code, Some(75), "{wrong:?}");
    assert!(wrong.stdout.contains("held by another") && !wrong.stdout.contains("secret-token"), "{wrong:?}");
    let ways: [&[&str]; 4] = [
        &["--token", "a-secret-token"],
        &["--token-file", "token"],
        &["--token", "-"],
        &["--token-file", "-"],
    ];
    for way in ways {
        bench.server.command(&["SET", "lock:k", "a-secret-token", "PX", "60000"]).unwrap();
        let args: Vec<&str> = ["release", "k"].iter().chain(way).copied().collect();
        let release = || Running::with_input(bench.command(&args), b"a-secret-token\n").output();
        let (first, second) = (release(), release());
        assert_eq!(
            (first.code, first.stdout.as_str()),
            (Some(0), "lock:k is released\n"),
            "{way:?} {first:?}"
        );
        assert!(!bench.is_held("lock:k"));
        assert_eq!(second.code, Some(1), "there is nothing left to release");
    }
}

#[test]
fn a_commands_own_token_is_accepted() {
    let Some(bench) = Bench::new() else { return };
    let program = env!("CARGO_BIN_EXE_lockkeeper");
    let script = format!(r#"{program} release --exact "$LOCKKEEPER_KEY" --token "$LOCKKEEPER_TOKEN""#);
    let output = bench.run(&["k"], &script).output();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.stdout, "lock:k is released\n");
}

#[test]
fn force_needs_a_yes_and_shows_the_holder() {
    let Some(bench) = held_by_somebody() else { return };
    let refused = bench.lockkeeper(&["release", "--force", "k"]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert!(
        refused.stderr.contains("--yes") && refused.stderr.contains("foreign `a-secret…`"),
        "{refused:?}"
    );
    assert!(bench.is_held("lock:k"));
    let forced = bench.lockkeeper(&["release", "--force", "--yes", "k"]);
    assert_eq!(forced.code, Some(0), "{forced:?}");
    assert!(forced.stderr.contains("lock:k is held by foreign `a-secret…`"), "{forced:?}");
    assert!(!bench.is_held("lock:k"));
    assert_eq!(bench.lockkeeper(&["release", "--force", "--yes", "k"]).code, Some(1));
}

#[test]
fn force_spares_a_holder_other_than_the_one_named() {
    let Some(bench) = held_by_somebody() else { return };
    let args = ["release", "--json", "--force", "--yes", "--holder-id"];
    let with_id = |id: &str| bench.lockkeeper(&[&args[..], &[id, "k"]].concat());
    let spared = with_id("00000000");
    assert_eq!(spared.code, Some(75), "{spared:?}");
    let report: serde_json::Value = serde_json::from_str(&spared.stdout).unwrap();
    assert_eq!(report["outcome"], "held_by_another");
    assert!(bench.is_held("lock:k"));
    let taken = with_id(report["holder_id"].as_str().unwrap());
    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert!(!bench.is_held("lock:k"));
}

#[test]
fn force_leaves_what_is_no_lock() {
    let Some(bench) = Bench::new() else { return };
    bench.server.command(&["RPUSH", "lock:k", "x"]).unwrap();
    let output = bench.lockkeeper(&["release", "--force", "--yes", "k"]);
    assert_eq!(output.code, Some(65), "{output:?}");
    assert!(bench.is_held("lock:k"));
}

#[test]
fn a_forced_release_ends_the_command_of_the_removed_holder() {
    let Some(bench) = Bench::new() else { return };
    let running = bench.run(&["--lease", "900ms", "k"], HOLD);
    bench.wait_for_file("holds");
    let child = bench.pid("child");
    assert_eq!(bench.lockkeeper(&["release", "--force", "--yes", "k"]).code, Some(0));
    let output = running.output();
    assert_eq!(output.code, Some(76), "{output:?}");
    assert!(child.is_gone());
}
