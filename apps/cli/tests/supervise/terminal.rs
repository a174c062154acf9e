//! Job control at a terminal: a real interactive shell on a pseudo-terminal, and keys typed into it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Signal, ioctl_tiocsctty, kill_process_group, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::tcgetpgrp;

use super::bench::{Process, Scratch, wait_for, wrapper};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";

/// An interactive shell at a terminal. `$W` is the wrapper.
struct Shell {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    shell: Child,
}

impl Shell {
    fn new(scratch: &Scratch) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave: OwnedFd =
            File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap().into();
        let copy = || Stdio::from(slave.try_clone().unwrap());
        let mut command = Command::new("sh");
        command
            .arg("-i")
            .current_dir(scratch.path(""))
            .env("W", wrapper())
            .env("PS1", "$ ")
            .env_remove("ENV");
        command.stdin(copy()).stdout(copy()).stderr(copy());
        // SAFETY: Both are plain system calls.
        #[expect(unsafe_code, reason = "the shell needs a session and a terminal of its own")]
        unsafe {
            command.pre_exec(move || {
                setsid()?;
                Ok(ioctl_tiocsctty(&slave)?)
            });
        }
        let shell = command.spawn().unwrap();
        let keyboard = File::from(master);
        let screen = Arc::default();
        let (mut output, copy) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || show(&mut output, &copy));
        Self { keyboard, screen, shell }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn foreground(&self) -> Option<i32> {
        tcgetpgrp(self.keyboard.as_fd()).ok().map(|pid| pid.as_raw_nonzero().get())
    }

    fn wait_for_foreground(&self, who: Process) {
        wait_for("the terminal to change hands", || self.foreground() == Some(who.0));
    }

    /// Waits for the shell to be the one at the terminal.
    fn wait_for_prompt(&self) {
        self.wait_for_foreground(Process(i32::try_from(self.shell.id()).unwrap()));
    }

    /// Has the shell say how the last command ended.
    fn status(&mut self) -> String {
        self.wait_for_prompt();
        self.press("echo \"ended: $?.\"\n");
        // The typed line is echoed too, with `$?` in place of a number.
        let found = || {
            let screen = self.screen.lock().unwrap();
            let answers = screen.split("ended: ").filter_map(|rest| rest.split_once('.'));
            answers.map(|(status, _)| status.to_owned()).find(|status| status.parse::<u8>().is_ok())
        };
        wait_for("the status", || found().is_some());
        found().unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the screen:\n{}\n---", self.screen.lock().unwrap());
        }
        let foreground = tcgetpgrp(self.keyboard.as_fd());
        let _ = foreground.and_then(|group| kill_process_group(group, Signal::KILL));
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn show(output: &mut File, screen: &Mutex<String>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = output.read(&mut buffer) {
        screen.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
}

#[test]
fn ctrl_z_stops_and_fg_goes_on_after_verification() {
    let scratch = Scratch::new();
    let mut shell = Shell::new(&scratch);
    shell.press(
        "$W --pid-file wrapper --verify-file held sh -c 'echo $$ >child; while :; do (sleep 0.02); done'\n",
    );
    let child = scratch.pid("child");
    let keeper = Process(scratch.read("wrapper").parse().unwrap());
    shell.wait_for_foreground(child);
    for _ in 0..2 {
        shell.press(CTRL_Z);
        wait_for("both to stop", || child.is_stopped() && keeper.is_stopped());
        shell.wait_for_prompt();
        scratch.touch("held");
        shell.press("fg\n");
        wait_for("both to go on", || child.is_running() && keeper.is_running());
        shell.wait_for_foreground(child);
    }
    shell.press(CTRL_C);
    assert_eq!(shell.status(), "130");
    assert!(child.is_gone() && keeper.is_gone());
}

#[test]
fn fg_after_the_lock_was_lost_ends_the_child() {
    let scratch = Scratch::new();
    let mut shell = Shell::new(&scratch);
    shell.press(
        "$W --verify-file held sh -c 'trap \"exit 7\" TERM; echo $$ >child; while :; do (sleep 0.02); done'\n",
    );
    let child = scratch.pid("child");
    shell.wait_for_foreground(child);
    shell.press(CTRL_Z);
    shell.wait_for_prompt();
    assert!(child.is_stopped());
    shell.press("fg\n");
    wait_for("the child's end", || child.is_gone());
    assert_eq!(shell.status(), "7");
}

#[test]
fn the_child_reads_from_the_terminal() {
    let scratch = Scratch::new();
    let mut shell = Shell::new(&scratch);
    shell.press("$W sh -c 'echo $$ >child; cat >typed'\n");
    shell.wait_for_foreground(scratch.pid("child"));
    shell.press("some words\n");
    shell.press(CTRL_D);
    assert_eq!(shell.status(), "0");
    assert_eq!(scratch.read("typed"), "some words\n");
}

#[test]
fn in_a_pipeline_the_child_gets_the_terminal_when_it_reads() {
    let scratch = Scratch::new();
    let mut shell = Shell::new(&scratch);
    shell.press("$W sh -c 'echo $$ >child; until test -e go; do (sleep 0.02); done; cat' | cat >typed\n");
    let child = scratch.pid("child");
    assert_ne!(shell.foreground(), Some(child.0), "the rest of the pipeline may need it");
    scratch.touch("go");
    shell.wait_for_foreground(child);
    shell.press("some words\n");
    shell.press(CTRL_D);
    assert_eq!(shell.status(), "0");
    assert_eq!(scratch.read("typed"), "some words\n");
}

#[test]
fn in_a_pipeline_ctrl_z_and_ctrl_c_reach_the_child() {
    let scratch = Scratch::new();
    let mut shell = Shell::new(&scratch);
    scratch.touch("held");
    shell.press("$W --verify-file held sh -c 'echo $$ >child; while :; do (sleep 0.02); done' | cat\n");
    let child = scratch.pid("child");
    shell.press(CTRL_Z);
    shell.wait_for_prompt();
    assert!(child.is_stopped());
    shell.press("fg\n");
    wait_for("the child to go on", || child.is_running());
    shell.press(CTRL_C);
    wait_for("the child's death", || child.is_gone());
    shell.wait_for_prompt();
}

#[test]
fn in_the_background_it_stops_for_input_and_gets_it_by_fg() {
    let scratch = Scratch::new();
    let mut shell = Shell::new(&scratch);
    scratch.touch("held");
    shell.press(
        "$W --pid-file wrapper --verify-file held sh -c 'echo $$ >child; read x; echo \"$x\" >typed' &\n",
    );
    let child = scratch.pid("child");
    let keeper = Process(scratch.read("wrapper").parse().unwrap());
    wait_for("both to stop", || child.is_stopped() && keeper.is_stopped());
    shell.wait_for_prompt();
    shell.press("fg\n");
    shell.wait_for_foreground(child);
    shell.press("some words\n");
    assert_eq!(shell.status(), "0");
    assert_eq!(scratch.read("typed"), "some words\n");
}

#[test]
fn ctrl_c_ends_the_script_that_called_us() {
    for redirect in ["", "| cat"] {
        let scratch = Scratch::new();
        let mut shell = Shell::new(&scratch);
        let line = format!("$W sh -c \"echo \\$\\$ >child; exec sleep 1000\" {redirect}; echo >survived");
        shell.press(&format!("sh -c '{line}'; echo \"script: $?.\"\n"));
        let child = scratch.pid("child");
        wait_for("the sleep", || {
            std::fs::read_to_string(format!("/proc/{}/comm", child.0)).unwrap() == "sleep\n"
        });
        shell.press(CTRL_C);
        wait_for("the child's death", || child.is_gone());
        shell.wait_for_prompt();
        assert!(!scratch.path("survived").exists(), "{redirect:?}");
    }
}

#[test]
fn ctrl_z_stops_the_script_that_called_us() {
    let scratch = Scratch::new();
    let mut shell = Shell::new(&scratch);
    scratch.touch("held");
    let looping = "echo \\$\\$ >child; until test -e go; do (sleep 0.02); done";
    shell.press(&format!("sh -c '$W --verify-file held sh -c \"{looping}\"; echo >survived'\n"));
    let child = scratch.pid("child");
    shell.wait_for_foreground(child);
    shell.press(CTRL_Z);
    shell.wait_for_prompt();
    assert!(child.is_stopped());
    shell.press("fg\n");
    shell.wait_for_foreground(child);
    scratch.touch("go");
    assert_eq!(shell.status(), "0");
    assert!(scratch.path("survived").exists());
}

#[test]
fn a_killed_child_leaves_the_terminal_as_it_was() {
    let scratch = Scratch::new();
    let mut shell = Shell::new(&scratch);
    let wrapper = "$W --lose-after-file lost --within-ms 300";
    let script = "trap \"\" TERM; stty -icanon; stty -a >inside; echo $$ >child; sleep 1000";
    shell.press(&format!("{wrapper} sh -c '{script}'; stty -a >after; echo >done\n"));
    shell.wait_for_foreground(scratch.pid("child"));
    scratch.touch("lost");
    wait_for("the next command", || scratch.path("done").exists());
    assert!(scratch.read("inside").contains(" -icanon "));
    assert!(scratch.read("after").contains(" icanon "));
}

#[test]
fn a_program_that_does_not_exist_gives_the_terminal_back() {
    let scratch = Scratch::new();
    let mut shell = Shell::new(&scratch);
    shell.press("sh -c '$W no-such-program; code=$?; exec $W sh -c \"echo \\$\\$ >child; exit $code\"'\n");
    assert_eq!(shell.status(), "127");
    assert!(scratch.pid("child").is_gone());
}
