//! One at a time, for as long as the work takes, and no longer.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::bench::{Bench, HOLD, Running, wait_for};

/// Appends `start` and `end` lines with the time since the machine started.
const LOGGED: &str =
    r#"stamp() { read up _ </proc/uptime; echo "$1 $$ $up" >>log; }; stamp start; sleep 0.05; stamp end"#;

/// The lines of `log` come in pairs of one process, and time does not go back.
fn assert_no_overlap(log: &str, expected: usize) {
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
    let stamp = |line: &[&str]| line[2].parse::<f64>().unwrap();
    assert_eq!(lines.len(), 2 * expected, "{log}");
    for pair in lines.chunks(2) {
        assert_eq!((pair[0][0], pair[1][0], pair[0][1]), ("start", "end", pair[1][1]), "{log}");
    }
    assert!(lines.windows(2).all(|two| stamp(&two[0]) <= stamp(&two[1])), "{log}");
}

#[test]
fn ten_at_once_run_one_after_the_other() {
    let Some(bench) = Bench::new() else { return };
    let all: Vec<Running> = (0..10).map(|_| bench.run(&["--wait", "30s", "k"], LOGGED)).collect();
    for running in all {
        let output = running.output();
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    }
    assert_no_overlap(&bench.read("log"), 10);
    assert!(!bench.is_held("lock:k"));
}

#[test]
fn c71_after_kill_9_the_next_one_waits_for_the_lease_and_no_longer() {
    let Some(bench) = Bench::new() else { return };
    let lease = Duration::from_secs(3);
    let mut first = bench.run(&["--lease", "3s", "k"], HOLD);
    bench.wait_for_file("holds");
    let child = bench.pid("child");
    let others: Vec<Running> = (0..3).map(|_| bench.run(&["--wait", "30s", "k"], LOGGED)).collect();
    first.process().signal(Signal::KILL);
    let killed = Instant::now();
    first.wait();
    wait_for("the child to die with its wrapper", || child.is_gone());
    wait_for("the next one", || bench.read("log").contains("start"));
    assert!(killed.elapsed() < lease + Duration::from_millis(1500), "{:?}", killed.elapsed());
    for running in others {
        assert_eq!(running.output().code, Some(0));
    }
    assert_no_overlap(&bench.read("log"), 3);
}

#[test]
fn c73_a_job_of_three_leases_keeps_its_lock() {
    let Some(bench) = Bench::new() else { return };
    let job = bench.run(&["--lease", "500ms", "k"], "touch holds; sleep 1.5");
    bench.wait_for_file("holds");
    let started = Instant::now();
    let mut tries = 0;
    while started.elapsed() < Duration::from_millis(1400) {
        assert_eq!(bench.lockkeeper(&["run", "--try", "k", "--", "touch", "second"]).code, Some(75));
        tries += 1;
    }
    let output = job.output();
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(tries > 3 && !bench.path("second").exists());
}

#[test]
fn c74_with_min_hold_a_short_job_on_two_hosts_runs_once() {
    let Some(bench) = Bench::new() else { return };
    let job = |name: &str| {
        bench.run(&["-x", "--lease", "600ms", "--min-hold", "2s", "k"], &format!("echo {name} >>log"))
    };
    let first = job("first");
    wait_for("the first one's job", || bench.read("log") == "first\n");
    let done = Instant::now();
    let second = job("second").output();
    assert_eq!((second.code, second.stderr.as_str()), (Some(0), ""), "as if it had run");
    // Beyond one lease: it is renewed.
    wait_for("more than a lease", || done.elapsed() > Duration::from_secs(1));
    assert!(bench.is_held("lock:k"));
    assert_eq!(first.output().code, Some(0));
    assert!(done.elapsed() > Duration::from_millis(1800), "{:?}", done.elapsed());
    assert!(!bench.is_held("lock:k"));
    assert_eq!(job("third").output().code, Some(0));
    assert_eq!(bench.read("log"), "first\nthird\n");
}

#[test]
fn c74_a_signal_ends_min_hold_with_the_commands_code() {
    let Some(bench) = Bench::new() else { return };
    let mut running = bench.run(&["--min-hold", "1h", "k"], "echo $$ >child; exit 3");
    let child = bench.pid("child");
    wait_for("the command's end", || child.is_gone());
    assert!(bench.is_held("lock:k"));
    running.process().signal(Signal::TERM);
    assert_eq!(running.wait().code(), Some(3));
    assert!(!bench.is_held("lock:k"));
}

#[test]
fn a_command_that_was_asked_to_end_is_not_kept_by_min_hold() {
    let Some(bench) = Bench::new() else { return };
    let script = "trap 'exit 4' TERM; touch holds; while :; do (sleep 0.02); done";
    let mut running = bench.run(&["--min-hold", "1h", "k"], script);
    bench.wait_for_file("holds");
    running.process().signal(Signal::TERM);
    assert_eq!(running.wait().code(), Some(4));
    assert!(!bench.is_held("lock:k"));
}

#[test]
fn a_missing_command_keeps_nothing() {
    let Some(bench) = Bench::new() else { return };
    assert_eq!(bench.lockkeeper(&["run", "--min-hold", "1h", "k", "--", "./missing"]).code, Some(127));
}

#[test]
fn c77_a_daemon_outlives_the_lock_unless_the_group_is_waited_for() {
    let Some(bench) = Bench::new() else { return };
    // It goes with its folder, at the latest.
    let script = "(until [ -e go ] || [ ! -d \"$PWD\" ]; do (sleep 0.02); done) >/dev/null 2>&1 & exit 6";
    assert_eq!(bench.run(&["alone", "--wait", "1s"], script).wait().code(), Some(6));
    assert!(!bench.is_held("lock:alone"), "released when the command itself has ended");

    let script = format!("{script}6");
    let mut group = bench.run(&["--lease", "400ms", "--wait-group", "group"], &script);
    let started = Instant::now();
    wait_for("two leases", || started.elapsed() > Duration::from_millis(800));
    assert!(group.is_running() && bench.is_held("lock:group"));
    bench.touch("go");
    assert_eq!(group.wait().code(), Some(66));
    assert!(!bench.is_held("lock:group"));
}

#[test]
fn max_hold_ends_the_command_and_releases_the_lock() {
    let Some(bench) = Bench::new() else { return };
    let script = "trap 'echo asked >log; exit 0' TERM; while :; do (sleep 0.02); done";
    let started = Instant::now();
    let output = bench.run(&["--max-hold", "300ms", "k"], script).output();
    assert_eq!(output.code, Some(76), "{output:?}");
    assert!(output.stderr.contains("300ms") && output.stderr.contains("lock:k"), "{output:?}");
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(bench.read("log"), "asked\n");
    assert!(!bench.is_held("lock:k"));
}
