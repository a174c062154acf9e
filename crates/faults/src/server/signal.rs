//! Signals to a child process that is not reaped yet, so that its id is certainly still its own.

use std::io;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::error::ServerError;

/// No wait for a process is longer.
pub(crate) const PROCESS_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a condition is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(2);

pub(crate) fn send(child: &Child, signal: Signal) -> Result<(), ServerError> {
    kill_process(Pid::from_child(child), signal)
        .map_err(|errno| ServerError::io("sending a signal")(io::Error::from(errno)))
}

/// Waits until every thread of the process stands still.
pub(crate) fn wait_stopped(child: &Child) -> Result<(), ServerError> {
    let id = WaitId::Pid(Pid::from_child(child));
    // Without taking the event, so that a process that was stopped before is seen as well.
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let stopped = until(|| match waitid(id.clone(), options) {
        Ok(status) => Ok(status.map(|_| ())),
        Err(rustix::io::Errno::INTR) => Ok(None),
        // There is nothing to wait for: it has ended.
        Err(_) => Err(ServerError::NotRunning),
    })?;
    stopped.ok_or(ServerError::Unresponsive { what: "stop" })
}

/// Waits until the process has ended and reaps it; `None` when it takes too long.
pub(crate) fn wait_ended(child: &mut Child) -> Result<Option<ExitStatus>, ServerError> {
    until(|| child.try_wait().map_err(ServerError::io("waiting for the server")))
}

fn until<T>(mut look: impl FnMut() -> Result<Option<T>, ServerError>) -> Result<Option<T>, ServerError> {
    let deadline = Instant::now() + PROCESS_TIMEOUT;
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}
