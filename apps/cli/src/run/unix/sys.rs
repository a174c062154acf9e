//! All the unsafe code of this module: signal dispositions, and what happens between fork and exec.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::process::{getpid, kill_current_process_group};
use rustix::termios::tcsetpgrp;

use super::group::named;

/// What a signal does: the system's record of it, to be put back.
struct Disposition(libc::sigaction);

/// Sets what `signal` does, and returns what it did.
fn replace(signal: i32, new: &Disposition) -> io::Result<Disposition> {
    let mut old = plain(libc::SIG_DFL);
    // SAFETY: Both point to valid records. `new` is SIG_DFL, SIG_IGN or what an earlier call returned, so that no
    // handler is installed here which was not in place before.
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    let result = unsafe { libc::sigaction(signal, &raw const new.0, &raw mut old.0) };
    if result == 0 { Ok(old) } else { Err(io::Error::last_os_error()) }
}

/// SIG_DFL or SIG_IGN.
fn plain(handler: libc::sighandler_t) -> Disposition {
    // SAFETY: A record of integers, an integer set and at most an optional function: all zero is valid, and means
    // no flags and an empty mask.
    #[expect(unsafe_code, reason = "the record's fields differ between systems")]
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    Disposition(action)
}

/// Whether `signal` is ignored now, as `nohup` and shells without job control arrange it for their children.
pub(super) fn is_ignored(signal: i32) -> bool {
    let mut now = plain(libc::SIG_DFL);
    // SAFETY: Asks only; `now` is a valid record.
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now.0) };
    result == 0 && now.0.sa_sigaction == libc::SIG_IGN
}

/// Ignores `signal` in this process. Whether it was ignored before.
pub(super) fn ignore(signal: i32) -> io::Result<bool> {
    Ok(replace(signal, &plain(libc::SIG_IGN))?.0.sa_sigaction == libc::SIG_IGN)
}

/// Unblocks all signals in this thread, and in the threads it starts from now on.
pub(super) fn unblock_all() -> io::Result<()> {
    // SAFETY: `none` is initialised by sigemptyset before it is used. Both calls are async-signal-safe.
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    let result = unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}

/// Lets `signal` do to this process what it does to a process that does not catch it, and with `job` to the other
/// processes of our job as well. Returns when that did not end us: after a stop, when we are continued.
///
/// The job gets the signal while we ignore it: sent to ourselves too, it could arrive in another thread, after the
/// handler is back. `raise` aims at this thread, and has its effect before it returns.
pub(in crate::run) fn act_on_self(signal: i32, job: bool) {
    let Ok(handler) = replace(signal, &plain(libc::SIG_IGN)) else { return };
    if job && let Some(signal) = named(signal) {
        let _ = kill_current_process_group(signal);
    }
    if replace(signal, &plain(libc::SIG_DFL)).is_ok() {
        // SAFETY: No memory is involved.
        #[expect(unsafe_code, reason = "there is no safe wrapper")]
        unsafe {
            libc::raise(signal);
        }
    }
    let _ = replace(signal, &handler);
}

/// What the child does to itself before it becomes the program.
pub(super) struct BeforeExec {
    /// The terminal which it makes its own.
    pub(super) terminal: Option<Arc<std::fs::File>>,
    /// Whether SIGTTOU, which we ignore, has to be put back to its default.
    pub(super) reset_ttou: bool,
}

impl BeforeExec {
    /// Has `command` do this after the fork, in its new process group.
    pub(super) fn install(self, command: &mut Command) {
        let parent = getpid();
        // SAFETY: Between fork and exec only async-signal-safe functions may be called. `run` makes system calls,
        // and builds errors from numbers: it does not allocate, lock or panic.
        #[expect(unsafe_code, reason = "the one place to tie the child's life to ours")]
        unsafe {
            command.pre_exec(move || self.run(parent));
        }
    }

    fn run(&self, parent: rustix::process::Pid) -> io::Result<()> {
        die_with(parent)?;
        if let Some(terminal) = &self.terminal {
            // We are in the background and may do this only because SIGTTOU is still ignored. If it fails, the
            // child stops when it uses the terminal, and gets it then.
            let _ = tcsetpgrp(terminal, getpid());
        }
        if self.reset_ttou {
            replace(libc::SIGTTOU, &plain(libc::SIG_DFL))?;
        }
        // Exec puts what we catch back to the default; what is ignored stays so, as for every program.
        unblock_all()
    }
}

/// Has the system kill this process when the thread that forked it ends.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with(parent: rustix::process::Pid) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the parent is dead already, its death will not be reported any more.
    if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with(_parent: rustix::process::Pid) -> io::Result<()> {
    Ok(())
}
