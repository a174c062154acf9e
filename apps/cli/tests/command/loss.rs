//! A lock that is lost: the command ends before anybody else can be let in.

use std::time::{Duration, Instant};

use lockkeeper_faults::FaultProxy;

use rustix::process::Signal;

use super::bench::{Bench, HOLD, wait_for};

/// Writes `asked` on SIGTERM, and goes on all the same.
const STUBBORN: &str = "trap 'touch asked' TERM; echo $$ >child; while :; do (sleep 0.02); done";

#[test]
fn c67_l88_cut_off_the_command_ends_before_its_lease() {
    for silent in [false, true] {
        let Some(bench) = Bench::new() else { return };
        let proxy = FaultProxy::start(([127, 0, 0, 1], bench.server.port()).into()).unwrap();
        let bench = bench.reaching(proxy.url());
        let running = bench.run(&["--lease", "3s", "--grace", "500ms", "k"], STUBBORN);
        let child = bench.pid("child");
        if silent {
            proxy.black_hole();
        } else {
            proxy.cut();
        }
        // No renewal reaches the server any more: this is when it lets others in.
        let ends = bench.expires_at("lock:k").unwrap();
        wait_for("the command's end", || child.is_gone());
        let ended = Instant::now();
        assert!(ended < ends, "{:?} too late", ended - ends);
        assert!(ends - ended < Duration::from_secs(1), "the lease was used: {:?} left", ends - ended);
        assert!(bench.path("asked").exists(), "SIGTERM came first");
        let output = running.output();
        assert_eq!(output.code, Some(76), "{output:?}");
        assert!(output.stderr.contains("lock:k: it could not be renewed"), "{output:?}");
        assert!(ended.elapsed() < Duration::from_secs(6), "our own end is bounded");
    }
}

#[test]
fn a_short_cut_is_survived() {
    let Some(bench) = Bench::new() else { return };
    let proxy = FaultProxy::start(([127, 0, 0, 1], bench.server.port()).into()).unwrap();
    let bench = bench.reaching(proxy.url());
    let running = bench.run(&["--lease", "8s", "k"], HOLD);
    bench.wait_for_file("holds");
    proxy.cut();
    let (cut, first) = (Instant::now(), bench.expires_at("lock:k").unwrap());
    // It is due after a third of the lease at the latest, and then tried again.
    wait_for("a renewal to fail", || cut.elapsed() > Duration::from_secs(3));
    proxy.heal();
    let renewed = || bench.expires_at("lock:k").is_some_and(|at| at > first + Duration::from_secs(1));
    wait_for("a renewal", renewed);
    bench.touch("go");
    assert_eq!(running.output().code, Some(0));
    assert!(!bench.is_held("lock:k"));
}

#[test]
fn c65_l86_a_grandchild_does_not_survive_the_lock() {
    let Some(bench) = Bench::new() else { return };
    let script =
        "sh -c 'trap \"\" TERM; echo $$ >grandchild; while :; do (sleep 0.02); done' & echo $$ >child; wait";
    let running = bench.run(&["--lease", "1s", "k"], script);
    let (child, grandchild) = (bench.pid("child"), bench.pid("grandchild"));
    bench.server.command(&["SET", "lock:k", "another", "PX", "60000"]).unwrap();
    let output = running.output();
    assert_eq!(output.code, Some(76), "{output:?}");
    assert!(child.is_gone() && grandchild.is_gone());
    assert!(output.stderr.contains("held by another"), "{output:?}");
    assert!(bench.is_held("lock:k"), "the other one's lock is left alone");
}

#[test]
fn a_server_that_was_restarted_empty_has_lost_the_lock() {
    let Some(bench) = Bench::new() else { return };
    let running = bench.run(&["--lease", "20s", "k"], HOLD);
    bench.wait_for_file("holds");
    bench.server.restart().unwrap();
    let output = running.output();
    assert_eq!(output.code, Some(76), "{output:?}");
}

#[test]
fn a_loss_found_at_the_release_is_a_warning() {
    let Some(bench) = Bench::new() else { return };
    let running = bench.run(&["--lease", "1h", "k"], &format!("{HOLD}; exit 9"));
    bench.wait_for_file("holds");
    bench.server.command(&["SET", "lock:k", "another", "PX", "60000"]).unwrap();
    bench.touch("go");
    let output = running.output();
    assert_eq!(output.code, Some(9), "{output:?}");
    assert!(output.stderr.contains("it was held by another"), "{output:?}");
    assert!(bench.is_held("lock:k"));
}

#[test]
fn a_release_without_an_answer_is_a_warning() {
    let Some(bench) = Bench::new() else { return };
    let proxy = FaultProxy::start(([127, 0, 0, 1], bench.server.port()).into()).unwrap();
    let bench = bench.reaching(proxy.url());
    let running = bench.run(&["--lease", "1h", "k"], &format!("{HOLD}; exit 9"));
    bench.wait_for_file("holds");
    proxy.black_hole();
    let started = Instant::now();
    bench.touch("go");
    let output = running.output();
    assert_eq!(output.code, Some(9), "{output:?}");
    assert!(output.stderr.contains("ends with its lease"), "{output:?}");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

#[test]
fn a_closed_standard_error_changes_nothing() {
    let Some(bench) = Bench::new() else { return };
    let proxy = FaultProxy::start(([127, 0, 0, 1], bench.server.port()).into()).unwrap();
    let bench = bench.reaching(proxy.url());
    let mut running = bench.run(&["--lease", "2s", "k"], HOLD);
    running.close_stderr();
    bench.wait_for_file("holds");
    proxy.cut();
    assert_eq!(running.wait().code(), Some(76), "not the code of a panic");
}

/// A wrapper that is frozen for two leases cannot end its command in time; nobody can. When it wakes, it knows from its
/// own clock, before any answer, that the lease is over.
#[test]
fn l7_a_frozen_wrapper_wakes_up_without_its_lock_and_touches_nothing() {
    let Some(bench) = Bench::new() else { return };
    let running = bench.run(&["--lease", "1s", "k"], HOLD);
    let child = bench.pid("child");
    running.process().signal(Signal::STOP);
    wait_for("the lease to end", || !bench.is_held("lock:k"));
    assert_eq!(bench.lockkeeper(&["run", "k", "--", "true"]).code, Some(0), "the next one is let in");
    bench.server.command(&["SET", "lock:k", "another", "PX", "60000"]).unwrap();
    running.process().signal(Signal::CONT);
    let output = running.output();
    assert_eq!(output.code, Some(76), "{output:?}");
    assert!(child.is_gone());
    assert!(bench.is_held("lock:k"), "the other one's lock is left alone");
}
