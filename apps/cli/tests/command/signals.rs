//! Signals to the wrapper reach the command, and leave neither an orphan nor a lock.

use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;

use super::bench::{Bench, HOLD, wait_for};

/// A shell with a child of its own; both tell their numbers. In the foreground: a shell lets what it starts in the
/// background ignore INT and QUIT.
const FAMILY: &str =
    "echo $$ >child; sh -c 'echo $$ >grandchild; until [ -e go ]; do (sleep 0.02); done'; exit 5";

#[test]
fn c64_signals_reach_the_whole_group() {
    for (signal, code) in [(Signal::HUP, 129), (Signal::QUIT, 131)] {
        let Some(bench) = Bench::new() else { return };
        let mut running = bench.run(&["k"], FAMILY);
        let (child, grandchild) = (bench.pid("child"), bench.pid("grandchild"));
        running.process().signal(signal);
        assert_eq!(running.wait().code(), Some(code));
        wait_for("no orphan", || child.is_gone() && grandchild.is_gone());
        assert!(!bench.is_held("lock:k"));
    }
}

#[test]
fn c64_an_interrupt_that_the_command_handles_gives_its_code() {
    let Some(bench) = Bench::new() else { return };
    let script = "trap 'exit 7' INT; touch holds; while :; do (sleep 0.02); done";
    let mut running = bench.run(&["k"], script);
    bench.wait_for_file("holds");
    running.process().signal(Signal::INT);
    assert_eq!(running.wait().code(), Some(7));
    assert!(!bench.is_held("lock:k"));
}

#[test]
fn l83_term_ends_the_group_releases_and_is_143() {
    let Some(bench) = Bench::new() else { return };
    let mut running = bench.run(&["k"], FAMILY);
    let (child, grandchild) = (bench.pid("child"), bench.pid("grandchild"));
    running.process().signal(Signal::TERM);
    assert_eq!(running.wait().code(), Some(143));
    wait_for("no survivor", || child.is_gone() && grandchild.is_gone());
    assert!(!bench.is_held("lock:k"));
}

#[test]
fn l85_quit_strands_nobody() {
    let Some(bench) = Bench::new() else { return };
    let mut running = bench.run(&["k"], HOLD);
    let child = bench.pid("child");
    running.process().signal(Signal::QUIT);
    assert_eq!(running.wait().code(), Some(131));
    wait_for("the command's end", || child.is_gone());
}

#[test]
fn a_signal_while_waiting_ends_it_and_leaves_no_lock() {
    let Some(bench) = Bench::new() else { return };
    let mut holder = bench.run(&["k"], HOLD);
    bench.wait_for_file("holds");
    for (signal, code, killed_by) in
        [(Signal::TERM, Some(143), None), (Signal::HUP, Some(129), None), (Signal::INT, None, Some(2))]
    {
        let connected = || bench.clients();
        let before = connected();
        let mut waiting = bench.run(&["--wait-forever", "k"], "touch ran");
        wait_for("it to wait", || connected() > before);
        waiting.process().signal(signal);
        let status = waiting.wait();
        assert_eq!((status.code(), status.signal()), (code, killed_by));
    }
    bench.touch("go");
    assert_eq!(holder.wait().code(), Some(0));
    assert!(!bench.is_held("lock:k") && !bench.path("ran").exists());
}
