//! SIGTSTP and SIGCONT without a terminal.

use rustix::process::Signal;

use super::bench::{Running, Scratch, wait_for};

const LOOP: &str = "echo $$ >child; until test -e go; do (sleep 0.02); done; exit 5";

/// Stops the wrapper, which has to stop its child.
fn stop(running: &Running, scratch: &Scratch) {
    let child = scratch.pid("child");
    running.process().signal(Signal::TSTP);
    wait_for("both to stop", || running.process().is_stopped());
    assert!(child.is_stopped(), "the child must stop first");
}

#[test]
fn a_stopped_wrapper_stops_its_child_first_and_goes_on_when_verified() {
    let scratch = Scratch::new();
    let mut running = scratch.start(&["--verify-file", "held"], LOOP);
    for _ in 0..3 {
        stop(&running, &scratch);
        scratch.touch("held");
        running.process().signal(Signal::CONT);
        let child = scratch.pid("child");
        wait_for("both to go on", || child.is_running() && running.process().is_running());
    }
    scratch.touch("go");
    assert_eq!(running.code(), Some(5));
}

#[test]
fn a_group_that_ignores_sigtstp_is_stopped_all_the_same() {
    let scratch = Scratch::new();
    let script = format!("trap '' TSTP; sleep 1000 & echo $! >grandchild; trap 'kill $!' EXIT; {LOOP}");
    let mut running = scratch.start(&["--verify-file", "held"], &script);
    stop(&running, &scratch);
    assert!(scratch.pid("grandchild").is_stopped());
    scratch.touch("held");
    scratch.touch("go");
    running.process().signal(Signal::CONT);
    assert_eq!(running.code(), Some(5));
}

#[test]
fn a_child_whose_lock_was_lost_meanwhile_ends_by_sigterm() {
    let scratch = Scratch::new();
    let mut running = scratch.start(&["--verify-file", "held"], &format!("trap 'exit 7' TERM; {LOOP}"));
    stop(&running, &scratch);
    running.process().signal(Signal::CONT);
    assert_eq!(running.code(), Some(7));
}

#[test]
fn or_by_sigkill() {
    let scratch = Scratch::new();
    let options = ["--verify-file", "held", "--within-ms", "300"];
    let mut running = scratch.start(&options, &format!("trap '' TERM; {LOOP}"));
    stop(&running, &scratch);
    running.process().signal(Signal::CONT);
    assert_eq!(running.code(), Some(137));
}
