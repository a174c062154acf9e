//! Systems without Unix signals: start, wait, kill. There is no gentle way to end a program here, no job control,
//! and nothing ties the child's life to ours.

use std::io;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TryRecvError;

use super::supervisor::{Desk, Event, Order};
use super::{AskedToEnd, Ended};

/// How often the child is looked at.
const POLL: Duration = Duration::from_millis(20);

/// No signals are caught here.
#[derive(Debug)]
pub struct Signals(());

impl Signals {
    /// Does nothing.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn install() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// Nothing asks.
    pub fn asked_to_end(&self) -> AskedToEnd {
        AskedToEnd::new().1
    }

    /// Never returns.
    pub async fn fatal(&mut self) -> i32 {
        std::future::pending().await
    }
}

/// The thread that looks after the child.
pub(super) fn supervise(mut desk: Desk) {
    let mut command = Command::new(&desk.spec.program);
    command.args(&desk.spec.args).envs(desk.spec.env.iter().cloned());
    let ended = match command.spawn() {
        Ok(child) => wait(child, &mut desk),
        Err(error) => Ended::from_spawn_error(error),
    };
    let _ = desk.events.send(Event::Ended(ended));
}

/// Waits for the child's end, and kills it when told to: at once, for there is nothing to wait for.
fn wait(mut child: Child, desk: &mut Desk) -> Ended {
    let mut kill_at: Option<Instant> = None;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ended::Exited(status.code().unwrap_or(1)),
            Ok(None) => {}
            Err(error) => return Ended::Failed(error),
        }
        match desk.inbox.try_recv() {
            Ok(Order::StopBy(_)) => kill_at = Some(Instant::now()),
            Ok(Order::GoOn(_)) | Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        if kill_at.is_some() {
            let _ = child.kill();
        }
        std::thread::sleep(POLL);
    }
}
