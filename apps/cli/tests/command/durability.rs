//! `--durability`: met, not met, not to be had, and mistyped.

use lockkeeper_faults::{RedisServer, Replicated, ServerKind, available};

use super::bench::{Bench, HOLD, Output, wait_for};

/// A bench whose commands go to the primary of `replicas` replicas.
fn replicated(replicas: usize) -> Option<(Bench, Replicated)> {
    let bench = Bench::new().filter(|_| available(ServerKind::Redis))?;
    let group = Replicated::start(&RedisServer::builder(), replicas).unwrap();
    let url = group.primary().url();
    Some((bench.reaching(url), group))
}

fn did_not_run(bench: &Bench, output: &Output, word: &str) {
    assert_eq!(output.code, Some(69), "{output:?}");
    assert!(output.stderr.contains(word), "{output:?}");
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_command_runs_under_a_lock_that_the_replicas_have() {
    let Some((bench, group)) = replicated(1) else { return };
    let running = bench.run(&["--durability", "replicas=1", "k"], HOLD);
    bench.wait_for_file("holds");
    let on_replica = group.replicas()[0].server.command(&["EXISTS", "lock:k"]).unwrap();
    assert_eq!(on_replica.as_int(), Some(1));
    bench.touch("go");
    assert_eq!(running.output().code, Some(0));
}

#[test]
fn l79_too_few_is_said_and_nothing_runs_or_stays() {
    let Some((bench, group)) = replicated(2) else { return };
    group.replicas()[0].line.hold();
    let output = bench.run(&["--durability", "replicas=2", "k"], "touch ran").output();
    did_not_run(&bench, &output, "1 of 2 replicas acknowledged it in time");
    let is_gone = || group.primary().command(&["EXISTS", "lock:k"]).unwrap().as_int() == Some(0);
    wait_for("the lock to be given back", is_gone);
}

#[test]
fn a_level_that_the_server_does_not_have_is_said_and_nothing_runs() {
    let Some(bench) = Bench::new() else { return };
    let output = bench.run(&["--durability", "fsync", "k"], "touch ran").output();
    did_not_run(&bench, &output, "WAITAOF");
    assert!(!bench.is_held("lock:k"));
}

#[test]
fn a_mistyped_level_is_wrong_usage() {
    let Some(bench) = Bench::new() else { return };
    for level in ["replicas", "replicas=0", "replicas=101", "disk"] {
        let output = bench.run(&["--durability", level, "k"], "touch ran").output();
        assert_eq!(output.code, Some(64), "{output:?}");
        assert!(output.stderr.contains("--durability"), "{output:?}");
    }
    assert!(!bench.path("ran").exists());
}
