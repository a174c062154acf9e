//! Signals that reach the wrapper.

use std::process::Command;

use rustix::process::Signal;

use super::bench::{Running, Scratch, wait_for, wrapper};

#[test]
fn signals_are_passed_to_the_child() {
    let scratch = Scratch::new();
    let all = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
        (Signal::WINCH, "WINCH"),
        (Signal::CONT, "CONT"),
    ];
    let traps: Vec<_> = all.iter().map(|(_, name)| format!("trap 'echo >{name}' {name}")).collect();
    let script =
        format!("{}; echo $$ >child; until test -e go; do (sleep 0.02); done; exit 5", traps.join("; "));
    let mut running = scratch.start(&[], &script);
    scratch.pid("child");
    for (signal, name) in all {
        running.process().signal(signal);
        wait_for(name, || scratch.path(name).exists());
    }
    scratch.touch("go");
    assert_eq!(running.code(), Some(5));
}

#[test]
fn the_whole_group_is_signalled() {
    let scratch = Scratch::new();
    let mut running = scratch.start(&[], "sleep 1000 & echo $! >grandchild; echo $$ >child; wait");
    let (child, grandchild) = (scratch.pid("child"), scratch.pid("grandchild"));
    running.process().signal(Signal::TERM);
    assert_eq!(running.code(), Some(143));
    wait_for("the grandchild's death", || child.is_gone() && grandchild.is_gone());
}

#[test]
fn what_was_ignored_stays_ignored() {
    let scratch = Scratch::new();
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap '' HUP; exec "$0" "$@""#]).arg(wrapper());
    command.args(["sh", "-c", "echo $$ >child; until test -e go; do (sleep 0.02); done; exit 5"]);
    command.current_dir(scratch.path(""));
    let mut running = Running::start(command);
    let child = scratch.pid("child");
    running.process().signal(Signal::HUP);
    child.signal_group(Signal::HUP);
    scratch.touch("go");
    assert_eq!(running.code(), Some(5));
}

#[test]
fn the_child_starts_with_the_dispositions_we_got() {
    let scratch = Scratch::new();
    // Of the classic signals; the C library uses some of the others for itself.
    let masks = |text: &str| -> Vec<u64> {
        let lines =
            text.lines().filter_map(|line| line.strip_prefix("SigBlk:").or(line.strip_prefix("SigIgn:")));
        lines.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 0x7fff_ffff).collect()
    };
    assert_eq!(scratch.start(&[], "exec cat /proc/self/status >inside").code(), Some(0));
    let mut plain = Command::new("sh");
    plain.args(["-c", "exec cat /proc/self/status >outside"]).current_dir(scratch.path(""));
    assert_eq!(Running::start(plain).code(), Some(0));
    assert_eq!(masks(&scratch.read("inside")).len(), 2);
    assert_eq!(masks(&scratch.read("inside")), masks(&scratch.read("outside")));
}

#[test]
fn while_it_waits_for_the_lock_signals_are_for_the_wrapper() {
    let scratch = Scratch::new();
    let options = ["--start-after-file", "acquired", "--pid-file", "wrapper"];
    let mut running = scratch.start(&options, "echo >started");
    let wrapper = running.process();
    wait_for("the handlers", || !scratch.read("wrapper").is_empty());
    wrapper.signal(Signal::TSTP);
    wait_for("it to stop", || wrapper.is_stopped());
    wrapper.signal(Signal::CONT);
    wait_for("it to go on", || wrapper.is_running());
    wrapper.signal(Signal::TERM);
    assert_eq!(running.code(), Some(143));
    assert!(!scratch.path("started").exists());
}
