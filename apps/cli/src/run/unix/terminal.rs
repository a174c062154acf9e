//! Lending the terminal to the child.
//!
//! A terminal has one *foreground* process group: the one that may read from it, and that gets Ctrl-C and Ctrl-Z.
//! The child has a group of its own, so that it can be ended as a whole; to use the terminal, its group must become
//! the foreground.
//!
//! When? Our own group loses the foreground by it, and in a pipeline it holds others: in `lockkeeper run k -- make
//! | less` that is `less`, which could not read its keys any more. So the child gets the terminal
//!
//! * at once, if standard input *and* output are terminals: the usual case of a program alone on the command line;
//! * else when it tries to use the terminal: the system stops it for that (SIGTTIN, SIGTTOU), which we see. Until
//!   then Ctrl-C and Ctrl-Z reach our group, and are passed on.

use std::fs::File;
use std::io::IsTerminal;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, getpgrp, test_kill_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The controlling terminal, if there is one.
pub(super) struct Terminal {
    tty: Option<Arc<File>>,
    /// How it was set when the child got it.
    modes: Option<Termios>,
}

impl Terminal {
    pub(super) fn open() -> Self {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY);
        Self { tty: options.open("/dev/tty").ok().map(Arc::new), modes: None }
    }

    /// Whether our group is the foreground.
    pub(super) fn is_ours(&self) -> bool {
        self.foreground() == Some(getpgrp())
    }

    /// Whether the child should have it before it uses it. See the head of this file.
    pub(super) fn is_wanted_at_once(&self) -> bool {
        self.tty.is_some() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }

    /// The terminal, for a new child to take it by itself, if it is ours to give.
    pub(super) fn for_child(&mut self) -> Option<Arc<File>> {
        if !self.is_ours() {
            return None;
        }
        self.keep_modes();
        self.tty.clone()
    }

    /// Gives it to the group `child`, if it is ours to give.
    pub(super) fn give(&mut self, child: Pid) -> bool {
        if !self.is_ours() {
            return false;
        }
        self.keep_modes();
        self.tty.as_ref().is_some_and(|tty| tcsetpgrp(tty, child).is_ok())
    }

    /// Takes it back from the child's group, if that has it, or from a group that died with it. Whether it did.
    pub(super) fn take_back(&self, child: Option<Pid>) -> bool {
        let (Some(tty), Some(foreground)) = (&self.tty, self.foreground()) else { return false };
        if foreground == getpgrp() {
            return false;
        }
        let dead = || test_kill_process_group(foreground) == Err(Errno::SRCH);
        (Some(foreground) == child || dead()) && tcsetpgrp(tty, getpgrp()).is_ok()
    }

    /// Whether the child's group has it.
    pub(super) fn is_held_by(&self, child: Pid) -> bool {
        self.foreground() == Some(child)
    }

    /// Undoes what a killed program did to it: no echo, single keys.
    pub(super) fn restore_modes(&self) {
        if let (Some(tty), Some(modes)) = (&self.tty, &self.modes) {
            let _ = tcsetattr(tty, OptionalActions::Now, modes);
        }
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.tty.as_ref()?).ok()
    }

    fn keep_modes(&mut self) {
        self.modes = self.tty.as_ref().and_then(|tty| tcgetattr(tty).ok());
    }
}
