//! What a test does to a running server: pause and resume, kill, shut down, restart.

use std::process::Child;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use super::error::ServerError;
use super::guard::RedisServer;
use super::signal::{self, POLL, PROCESS_TIMEOUT};

impl RedisServer {
    /// The process id, while the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.living(&mut self.lock()).map(|child| child.id()).ok()
    }

    /// Whether the process exists; a paused one does.
    pub fn is_running(&self) -> bool {
        self.pid().is_some()
    }

    /// Stops the process (`SIGSTOP`) as if its machine had frozen, and returns when all its threads stand
    /// still. The kernel still accepts connections for it.
    pub fn pause(&self) -> Result<(), ServerError> {
        let mut slot = self.lock();
        let child = self.living(&mut slot)?;
        signal::send(child, Signal::STOP)?;
        signal::wait_stopped(child)
    }

    /// Lets a paused process go on (`SIGCONT`).
    pub fn resume(&self) -> Result<(), ServerError> {
        let mut slot = self.lock();
        signal::send(self.living(&mut slot)?, Signal::CONT)
    }

    /// Kills the process (`SIGKILL`) and waits for its end. One that has ended already is fine.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.end(&mut self.lock())
    }

    /// Asks the process to end (`SIGTERM`), so that it saves what it is configured to save, and waits for
    /// that; one that does not end in time is killed. A paused one is resumed first.
    pub fn shutdown(&self) -> Result<(), ServerError> {
        let mut slot = self.lock();
        let Ok(child) = self.living(&mut slot) else { return Ok(()) };
        signal::send(child, Signal::CONT)?;
        signal::send(child, Signal::TERM)?;
        let _ = signal::wait_ended(child)?;
        self.end(&mut slot)
    }

    /// Starts the server again on the same port, in the same folder, with the same settings. One that still
    /// runs is killed first; call [`RedisServer::shutdown`] before for an orderly end.
    pub fn restart(&self) -> Result<(), ServerError> {
        let mut slot = self.lock();
        self.end(&mut slot)?;
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        loop {
            match self.launch().run() {
                // Somebody's outgoing connection may have the port for a moment.
                Err(error) if error.is_port_taken() && Instant::now() < deadline => thread::sleep(POLL * 20),
                Err(error) => return Err(error),
                Ok(child) => {
                    *slot = Some(child);
                    return Ok(());
                }
            }
        }
    }

    /// The process, if it has not ended; one that has is reaped and forgotten.
    fn living<'a>(&self, slot: &'a mut Option<Child>) -> Result<&'a mut Child, ServerError> {
        if let Some(child) = slot
            && let Ok(Some(_)) = child.try_wait()
        {
            self.launch().sweep(child.id());
            *slot = None;
        }
        slot.as_mut().ok_or(ServerError::NotRunning)
    }

    fn end(&self, slot: &mut Option<Child>) -> Result<(), ServerError> {
        let Ok(child) = self.living(slot) else { return Ok(()) };
        signal::send(child, Signal::KILL)?;
        signal::wait_ended(child)?.ok_or(ServerError::Unresponsive { what: "end" })?;
        self.launch().sweep(child.id());
        *slot = None;
        Ok(())
    }
}
