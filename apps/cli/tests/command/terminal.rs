//! At a terminal. Job control has tests of its own, with the supervision.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::bench::{Bench, wait_for};

/// A pseudo-terminal: its screen, and the end that a program gets.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    line: File,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let line = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let (keyboard, screen) = (File::from(master), Arc::<Mutex<String>>::default());
        let (mut output, copy) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                copy.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { keyboard, screen, line }
    }

    pub(crate) fn stdio(&self) -> Stdio {
        self.line.try_clone().unwrap().into()
    }

    pub(crate) fn wait_for(&self, text: &str) {
        wait_for(&format!("{text:?} on the screen"), || self.screen.lock().unwrap().contains(text));
    }
}

fn code(mut command: Command, meanwhile: impl FnOnce()) -> Option<i32> {
    let mut child = command.spawn().unwrap();
    meanwhile();
    let mut status = None;
    wait_for("the command's end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

#[test]
fn c79_piped_input_reaches_a_command_whose_output_is_a_terminal() {
    let (Some(bench), terminal) = (Bench::new(), Terminal::new()) else { return };
    let mut command = bench.command(&["run", "k", "--", "sh", "-c", "cat; test -t 1 && echo at a terminal"]);
    std::fs::write(bench.path("input"), "from the pipe\n").unwrap();
    command.stdin(File::open(bench.path("input")).unwrap()).stdout(terminal.stdio());
    assert_eq!(code(command, || terminal.wait_for("at a terminal")), Some(0));
    terminal.wait_for("from the pipe");
}

#[test]
fn a_person_is_asked_before_a_lock_is_taken_away() {
    let Some(bench) = Bench::new() else { return };
    bench.server.command(&["SET", "lock:k", "a-secret-token", "PX", "60000"]).unwrap();
    for (answer, expected) in [("\n", 1), ("n\n", 1), ("y\n", 0)] {
        let mut terminal = Terminal::new();
        let mut command = bench.command(&["release", "--force", "k"]);
        command.stdin(terminal.stdio()).stdout(Stdio::null()).stderr(terminal.stdio());
        let code = code(command, || {
            terminal.wait_for("[y/N]");
            terminal.keyboard.write_all(answer.as_bytes()).unwrap();
        });
        assert_eq!(code, Some(expected), "{answer:?}");
        assert_eq!(bench.is_held("lock:k"), expected == 1);
    }
}

#[test]
fn the_table_has_a_bold_heading_at_a_terminal_unless_colours_are_unwanted() {
    let Some(bench) = Bench::new() else { return };
    bench.server.command(&["SET", "lock:k", "somebody", "PX", "60000"]).unwrap();
    for (variable, bold) in [("LOCKKEEPER_NOTHING", true), ("NO_COLOR", false)] {
        let terminal = Terminal::new();
        let mut command = bench.command(&["ls"]);
        command.env(variable, "1").stdin(Stdio::null()).stdout(terminal.stdio());
        assert_eq!(code(command, || terminal.wait_for("1 lock")), Some(0));
        assert_eq!(terminal.screen.lock().unwrap().contains("\x1b["), bold);
    }
}
