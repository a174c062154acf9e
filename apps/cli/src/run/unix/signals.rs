//! Catching the signals that reach this process.
//!
//! A thread of its own receives them and puts them in a queue. It depends on no runtime, so nothing that blocks
//! elsewhere delays them, and none is lost between waiting for the lock and starting the child.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::sys;
use crate::run::AskedToEnd;

/// What is passed to the child, apart from SIGCHLD, which is for us.
const FORWARDED: &[i32] = &[
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGWINCH,
    libc::SIGCONT,
    libc::SIGTSTP,
];

/// What asks us to end.
const ENDING: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// How long a continued process waits for the handler to run that says so.
const CONTINUED_BOUND: Duration = Duration::from_millis(50);

/// The signals that reach this process.
///
/// They are caught from [`install`](Self::install) to the end of the process. First they are for the caller, who
/// may be waiting for the lock; then the [`Supervisor`](crate::run::Supervisor) passes them to the child.
#[derive(Debug)]
pub struct Signals {
    caught: UnboundedReceiver<i32>,
    continued: Arc<AtomicBool>,
    asked: AskedToEnd,
    ttou_was_ignored: bool,
}

impl Signals {
    /// Starts to catch signals. To be called before other threads are started.
    ///
    /// What is ignored stays ignored, for us and for the child: SIGHUP under `nohup`, SIGINT in the background of a
    /// shell without job control.
    ///
    /// # Errors
    ///
    /// When the system refuses a handler or the thread.
    pub fn install() -> io::Result<Self> {
        sys::unblock_all()?;
        // We give the terminal away and write messages while we are in the background.
        let ttou_was_ignored = sys::ignore(libc::SIGTTOU)?;
        let continued = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(libc::SIGCONT, Arc::clone(&continued))?;
        // SIGCHLD even if it is ignored: we would not learn how the child ended.
        let wanted = FORWARDED.iter().copied().filter(|&signal| !sys::is_ignored(signal));
        let source = signal_hook::iterator::Signals::new(wanted.chain([libc::SIGCHLD]))?;
        let (sender, caught) = unbounded_channel();
        let (tell, asked) = AskedToEnd::new();
        std::thread::Builder::new().name("signals".into()).spawn(move || pump(source, &sender, &tell))?;
        Ok(Self { caught, continued, asked, ttou_was_ignored })
    }

    /// For after the child's end: whether a signal has asked us to end, even if it was passed to the child.
    pub fn asked_to_end(&self) -> AskedToEnd {
        self.asked.clone()
    }

    /// The next signal that would have ended this process, for the time before there is a child. Cancel safe.
    ///
    /// Ctrl-Z and `fg` work meanwhile. An exit code of 128 plus the number tells a shell what happened.
    pub async fn fatal(&mut self) -> i32 {
        loop {
            match self.recv().await {
                libc::SIGTSTP => _ = self.stop_self(libc::SIGTSTP, false),
                libc::SIGCONT | libc::SIGWINCH | libc::SIGCHLD => {}
                signal => return signal,
            }
        }
    }

    /// The next signal. Cancel safe.
    pub(super) async fn recv(&mut self) -> i32 {
        match self.caught.recv().await {
            Some(signal) => signal,
            // The thread ends only with the process.
            None => std::future::pending().await,
        }
    }

    /// Stops this process, with `job` our whole job, as `signal` does by default; returns when it is continued.
    ///
    /// `false` if the system did not stop it: it does not where nobody could continue it (an orphaned group).
    pub(super) fn stop_self(&self, signal: i32, job: bool) -> bool {
        self.continued.store(false, Ordering::SeqCst);
        sys::act_on_self(signal, job);
        // The handler of SIGCONT may run in another thread, a moment after this one goes on.
        let bound = Instant::now() + CONTINUED_BOUND;
        while !self.continued.load(Ordering::SeqCst) {
            if Instant::now() > bound {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Whether SIGTTOU was ignored before we ignored it.
    pub(super) fn ttou_was_ignored(&self) -> bool {
        self.ttou_was_ignored
    }
}

/// The thread: from the handlers to the queue.
fn pump(
    mut source: signal_hook::iterator::Signals,
    queue: &UnboundedSender<i32>,
    asked: &watch::Sender<bool>,
) {
    for signal in source.forever() {
        if ENDING.contains(&signal) {
            asked.send_replace(true);
        }
        // Fails when the child has ended: there is nobody left to tell.
        let _ = queue.send(signal);
    }
}
