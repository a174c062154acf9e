//! How a server process comes to life so that it dies with its parent.
//!
//! A test process that is killed runs no destructors, and its servers would stay behind. Linux can send a
//! process a signal when its parent ends; `setpriv` (util-linux) asks for that and then becomes the server,
//! with the same process id. The kernel means the parent *thread*, so that all servers are started by one
//! thread that lives as long as the process. Without a `setpriv` that can do this, servers end by their
//! guards only.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

struct Job {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

/// A command for this program that dies with this process, where that is possible.
pub(crate) fn tied_command(program: &OsStr) -> Command {
    if !can_tie() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Starts the command on the thread that starts all servers.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (answer, child) = mpsc::channel();
    let jobs = starter().ok_or_else(|| io::Error::other("no thread to start servers on"))?;
    let gone = || io::Error::other("the thread that starts servers is gone");
    jobs.send(Job { command, answer }).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

fn starter() -> Option<Sender<Job>> {
    static JOBS: OnceLock<Mutex<Option<Sender<Job>>>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| Mutex::new(start_thread().ok()));
    jobs.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn start_thread() -> io::Result<Sender<Job>> {
    let (jobs, inbox) = mpsc::channel::<Job>();
    thread::Builder::new().name("server-starter".to_owned()).spawn(move || {
        for mut job in inbox {
            // Nobody waits for the answer any more: then nobody owns the child either.
            if let Err(mpsc::SendError(Ok(mut child))) = job.answer.send(job.command.spawn()) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    })?;
    Ok(jobs)
}

fn can_tie() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "true"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        cfg!(target_os = "linux") && command.status().is_ok_and(|status| status.success())
    })
}
