//! Ctrl-Z: while we are stopped nobody renews the lease.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::bench::{Bench, HOLD, Running, wait_for};

fn stop(bench: &Bench, running: &Running) {
    let child = bench.pid("child");
    running.process().signal(Signal::TSTP);
    wait_for("both to stop", || running.process().is_stopped() && child.is_stopped());
}

#[test]
fn after_a_short_stop_the_command_goes_on() {
    let Some(bench) = Bench::new() else { return };
    let running = bench.run(&["k"], HOLD);
    bench.wait_for_file("holds");
    stop(&bench, &running);
    running.process().signal(Signal::CONT);
    bench.touch("go");
    let output = running.output();
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn after_a_stop_that_outlasts_the_lease_the_command_is_ended() {
    let Some(bench) = Bench::new() else { return };
    let script = "echo $$ >child; while :; do echo >>work; (sleep 0.02); done";
    let running = bench.run(&["--lease", "600ms", "k"], script);
    wait_for("some work", || bench.read("work").len() > 3);
    stop(&bench, &running);
    let (child, done) = (bench.pid("child"), bench.read("work").len());
    wait_for("the end of the lease", || !bench.is_held("lock:k"));
    bench.server.command(&["SET", "lock:k", "another", "PX", "60000"]).unwrap();
    running.process().signal(Signal::CONT);
    let output = running.output();
    assert_eq!(output.code, Some(76), "{output:?}");
    assert!(child.is_gone() && bench.read("work").len() <= done + 1, "nothing was done without the lock");
    assert!(bench.is_held("lock:k"), "the next holder keeps it");
}

#[test]
fn a_lock_taken_away_during_a_stop_is_found_out_before_the_command_goes_on() {
    let Some(bench) = Bench::new() else { return };
    let script = "echo $$ >child; while :; do echo >>work; (sleep 0.02); done";
    let running = bench.run(&["--lease", "60s", "k"], script);
    wait_for("some work", || bench.read("work").len() > 3);
    stop(&bench, &running);
    let done = bench.read("work").len();
    bench.server.command(&["SET", "lock:k", "another", "PX", "60000"]).unwrap();
    let continued = Instant::now();
    running.process().signal(Signal::CONT);
    let output = running.output();
    assert_eq!(output.code, Some(76), "{output:?}");
    assert!(continued.elapsed() < Duration::from_secs(5), "long before a renewal was due");
    assert!(bench.read("work").len() <= done + 1, "nothing was done without the lock");
}
