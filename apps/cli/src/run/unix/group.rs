//! The child and its process group: start, signal, wait.
//!
//! The thread that sends signals is also the one that waits for the child, so a number is never signalled after it
//! was given to another process: the child's stays its own until we wait for it, the group's until the last member
//! is gone, which is looked at often.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, test_kill_process_group,
    waitpgid, waitpid,
};

use super::sys::BeforeExec;
use super::zombies;
use crate::run::ChildSpec;

/// A started child, the leader of its own process group.
pub(super) struct Group {
    leader: Pid,
    leader_is_waited_for: bool,
}

/// What happened to the leader.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Exited(i32),
    Killed(i32),
    Stopped(i32),
    Continued,
}

impl Group {
    /// Starts the program. The calling thread must live as long as the child.
    pub(super) fn spawn(spec: &ChildSpec, before_exec: BeforeExec) -> io::Result<Self> {
        let mut command = Command::new(&spec.program);
        command.args(&spec.args).envs(spec.env.iter().map(|(name, value)| (name, value))).process_group(0);
        before_exec.install(&mut command);
        let child = command.spawn()?;
        let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let leader = leader.ok_or_else(|| io::Error::other("the child has no process id"))?;
        Ok(Self { leader, leader_is_waited_for: false })
    }

    /// The group's number, which is the child's.
    pub(super) fn id(&self) -> Pid {
        self.leader
    }

    /// Sends `signal` to all members. That there are none left, or that they run as somebody else, is no error
    /// anybody could do something about.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.leader, signal);
        if signal == Signal::KILL && !self.leader_is_waited_for {
            // It may have moved to another group.
            let _ = kill_process(self.leader, signal);
        }
    }

    /// What happened to the child since the last call, without waiting.
    pub(super) fn change(&mut self) -> Option<Change> {
        if self.leader_is_waited_for {
            return None;
        }
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        let change = match waitpid(Some(self.leader), options) {
            Ok(Some((_, status))) => read(status),
            Ok(None) => None,
            // Somebody else waited for it: it is gone, and with it how it ended.
            Err(Errno::CHILD) => Some(Change::Exited(1)),
            Err(_) => None,
        };
        self.leader_is_waited_for = matches!(change, Some(Change::Exited(_) | Change::Killed(_)));
        change
    }

    /// Whether living members are left, after the child ended.
    pub(super) fn is_alive(&self) -> bool {
        // As the first process of a container we inherit the orphans; nobody else waits for them.
        while let Ok(Some(_)) = waitpgid(self.leader, WaitOptions::NOHANG) {}
        test_kill_process_group(self.leader) != Err(Errno::SRCH) && !zombies::are_all_of(self.leader)
    }
}

fn read(status: WaitStatus) -> Option<Change> {
    if let Some(code) = status.exit_status() {
        Some(Change::Exited(code))
    } else if let Some(signal) = status.terminating_signal() {
        Some(Change::Killed(signal))
    } else if let Some(signal) = status.stopping_signal() {
        Some(Change::Stopped(signal))
    } else if status.continued() {
        Some(Change::Continued)
    } else {
        None
    }
}

/// The signal with this number.
pub(super) fn named(signal: i32) -> Option<Signal> {
    Signal::from_named_raw(signal)
}
