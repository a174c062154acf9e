//! What to run, and how it ended.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

/// A program to run under a lock.
#[derive(Clone, Debug)]
pub struct ChildSpec {
    /// The program: a path, or a name looked up in `PATH`.
    pub program: OsString,
    /// Its arguments, without its name.
    pub args: Vec<OsString>,
    /// What is added to the inherited environment.
    pub env: Vec<(OsString, OsString)>,
    /// Whether processes which the program leaves behind in its process group are waited for as well.
    pub wait_group: bool,
    /// How long the program has at most between SIGTERM and SIGKILL.
    pub grace: Duration,
}

impl ChildSpec {
    /// `program` without arguments, with ten seconds of grace.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            wait_group: false,
            grace: Duration::from_secs(10),
        }
    }
}

/// How the program ended.
#[derive(Debug)]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// A signal killed it.
    Signalled {
        /// The signal's number.
        signal: i32,
        /// Whether that was a Ctrl-C at our terminal.
        interrupt: Interrupt,
    },
    /// There is no such program.
    NotFound,
    /// There is such a file, but it cannot be executed.
    NotExecutable,
    /// The system could not start it for another reason.
    Failed(io::Error),
}

/// Whom a Ctrl-C that killed the child reached. See [`Ended::pass_on_interrupt`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interrupt {
    /// The child did not die of a Ctrl-C at our terminal.
    None,
    /// It reached our whole job, and we passed it to the child.
    Job,
    /// It reached the child alone, which held the terminal.
    ChildAlone,
}

impl Ended {
    /// The exit code which a shell would report for the program.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
            Self::Signalled { signal, .. } => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Self::NotFound => 127,
            Self::NotExecutable | Self::Failed(_) => 126,
        }
    }

    /// Lets this process die of SIGINT if the child died of a Ctrl-C. To be called last, after the release.
    ///
    /// A shell script that calls us ends on Ctrl-C only if it got SIGINT and sees that we died of it; an exit code
    /// of 130 does not tell it, and it would go on with its next line. So when the child held the terminal, the
    /// rest of our job is sent the SIGINT that it missed. In all other cases this returns without doing anything.
    pub fn pass_on_interrupt(&self) {
        #[cfg(unix)]
        if let Self::Signalled { signal, interrupt } = self
            && *interrupt != Interrupt::None
        {
            super::unix::act_on_self(*signal, *interrupt == Interrupt::ChildAlone);
        }
    }

    /// What an error of starting the program means.
    pub(super) fn from_spawn_error(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::NotExecutable,
            _ => Self::Failed(error),
        }
    }
}
