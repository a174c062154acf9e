//! How a child ends, by itself and by a lost lock.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::bench::{Running, Scratch, wait_for, wrapper};

#[test]
fn exit_codes_are_passed_on() {
    let scratch = Scratch::new();
    for code in [0, 1, 42, 126, 255] {
        assert_eq!(scratch.start(&[], &format!("exit {code}")).code(), Some(code));
    }
}

#[test]
fn death_by_a_signal_is_128_and_its_number() {
    let scratch = Scratch::new();
    for (name, number) in [("TERM", 15), ("KILL", 9), ("HUP", 1), ("INT", 2), ("SEGV", 11), ("USR2", 12)] {
        let status = scratch.start(&[], &format!("ulimit -c 0; kill -{name} $$")).code();
        assert_eq!(status, Some(128 + number), "{name}");
    }
}

#[test]
fn what_cannot_be_started_is_127_or_126() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("plain"), "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(scratch.path("plain"), std::fs::Permissions::from_mode(0o644)).unwrap();
    for (program, code) in [("no-such-program", 127), ("./missing", 127), ("./plain", 126), (".", 126)] {
        let mut command = Command::new(wrapper());
        command.arg(program).current_dir(scratch.path(""));
        assert_eq!(Running::start(command).code(), Some(code), "{program}");
    }
}

#[test]
fn standard_input_output_and_the_environment_reach_the_child() {
    let scratch = Scratch::new();
    let mut running = scratch.start(&[], r#"cat; echo "$SUPERVISED""#);
    running.0.stdin.take().unwrap().write_all(b"through the pipe\n").unwrap();
    let mut output = String::new();
    running.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert_eq!(output, "through the pipe\nyes\n");
    assert_eq!(running.code(), Some(0));
}

#[test]
fn a_lost_lock_ends_the_whole_group_gently() {
    let scratch = Scratch::new();
    let script = "sleep 1000 & echo $! >grandchild; trap 'echo >told; exit 7' TERM; echo $$ >child; wait";
    let mut running = scratch.start(&["--lose-after-file", "lost"], script);
    let (child, grandchild) = (scratch.pid("child"), scratch.pid("grandchild"));
    scratch.touch("lost");
    assert_eq!(running.code(), Some(7));
    assert!(scratch.path("told").exists() && child.is_gone() && grandchild.is_gone());
}

#[test]
fn a_group_that_ignores_sigterm_is_killed_by_the_deadline() {
    let scratch = Scratch::new();
    let script = "trap '' TERM; sleep 1000 & echo $! >grandchild; echo $$ >child; wait";
    let mut running = scratch.start(&["--lose-after-file", "lost", "--within-ms", "700"], script);
    let (child, grandchild) = (scratch.pid("child"), scratch.pid("grandchild"));
    let start = Instant::now();
    scratch.touch("lost");
    wait_for("the child's death", || child.is_gone() && grandchild.is_gone());
    let took = start.elapsed();
    assert_eq!(running.code(), Some(137));
    // The kill is early by a margin, and seeing both (the file, the death) takes a few polls.
    assert!(took >= Duration::from_millis(650) && took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn the_grace_period_ends_before_a_late_deadline() {
    let scratch = Scratch::new();
    let options = ["--lose-after-file", "lost", "--within-ms", "600000", "--grace-ms", "300"];
    let mut running = scratch.start(&options, "trap '' TERM; echo $$ >child; while :; do (sleep 0.05); done");
    scratch.pid("child");
    scratch.touch("lost");
    assert_eq!(running.code(), Some(137));
}

#[test]
fn members_left_behind_that_ignore_sigterm_are_killed_too() {
    let scratch = Scratch::new();
    let script = "(trap '' TERM; echo >ready; exec sleep 1000) & echo $! >grandchild; wait";
    let options = ["--lose-after-file", "lost", "--within-ms", "500"];
    let mut running = scratch.start(&options, script);
    let grandchild = scratch.pid("grandchild");
    wait_for("the trap", || scratch.path("ready").exists());
    scratch.touch("lost");
    assert_eq!(running.code(), Some(143));
    assert!(grandchild.is_gone());
}

#[test]
fn a_stopped_child_ends_too() {
    let scratch = Scratch::new();
    let script = "trap 'exit 7' TERM; echo $$ >child; while :; do (sleep 0.05); done";
    let mut running = scratch.start(&["--lose-after-file", "lost"], script);
    let child = scratch.pid("child");
    child.signal_group(Signal::STOP);
    wait_for("the child to stop", || child.is_stopped());
    assert!(running.process().is_running(), "its keeper goes on: the lease is to be kept");
    scratch.touch("lost");
    assert_eq!(running.code(), Some(7));
}

#[test]
fn background_members_are_waited_for_on_request_only() {
    let scratch = Scratch::new();
    let script = "(until test -e go; do (sleep 0.05); done; echo >done) >&- & echo $! >member; exit 3";
    let mut running = scratch.start(&[], script);
    assert_eq!(running.code(), Some(3));
    let member = scratch.pid("member");
    assert!(!member.is_gone());
    scratch.touch("go");
    wait_for("the member's end", || member.is_gone());

    let scratch = Scratch::new();
    let mut running = scratch.start(&["--wait-group"], script);
    scratch.pid("member");
    assert!(running.0.try_wait().unwrap().is_none());
    scratch.touch("go");
    assert_eq!(running.code(), Some(3));
    assert!(scratch.path("done").exists());
}

#[test]
fn the_child_dies_with_its_keeper() {
    let scratch = Scratch::new();
    let mut running = scratch.start(&[], "echo $$ >child; exec sleep 1000");
    let child = scratch.pid("child");
    running.process().signal(Signal::KILL);
    running.wait();
    wait_for("the child's death", || child.is_gone());
}
