//! Running a program under a lock: the part that looks after the program.
//!
//! Apart from `command`, which is `lockkeeper run` itself, this module knows nothing of Redis or leases. It starts a child, stands between it and the shell, and ends it
//! when it is told that the lock is lost. Three things matter here, in this order:
//!
//! 1. **No work without a lock.** [`Supervisor::stop_by`] ends the child's whole process group by an instant. A
//!    child that was stopped (Ctrl-Z) goes on only after the lease was verified ([`Event::Resumed`]). When this
//!    process is killed, the system kills the child (Linux).
//! 2. **As if we were not there.** Signals, exit codes, the terminal, Ctrl-C, Ctrl-Z, `fg`, `bg`, pipes and
//!    `nohup` do what they do without `lockkeeper`.
//! 3. **The caller is a plain async loop.** Everything else happens on a thread of its own:
//!
//! ```no_run
//! # use lockkeeper_cli::run::{ChildSpec, Event, Signals, Supervisor};
//! # async fn lost() -> std::time::Instant { std::future::pending().await }
//! # async fn verified() -> Result<(), std::time::Instant> { Ok(()) }
//! # async fn main_loop(spec: ChildSpec) -> std::io::Result<u8> {
//! let mut signals = Signals::install()?; // first of all: before any other thread, before the lock
//! tokio::select! {
//!     // guard = acquire() => …,
//!     signal = signals.fatal() => return Ok(128 + signal as u8),
//!     else => (),
//! }
//! let mut supervisor = Supervisor::start(spec, signals)?;
//! let ended = loop {
//!     tokio::select! {
//!         event = supervisor.event() => match event {
//!             Event::Ended(ended) => break ended,
//!             Event::Resumed(question) => match verified().await {
//!                 Ok(()) => question.go_on(),
//!                 Err(deadline) => question.stop_by(deadline),
//!             },
//!         },
//!         deadline = lost() => supervisor.stop_by(deadline),
//!     }
//! };
//! // Release the lock here; then:
//! ended.pass_on_interrupt();
//! # Ok(ended.code())
//! # }
//! ```
//!
//! # What is beyond our reach
//!
//! * A process that leaves the child's process group (a daemon, `setsid`) is not signalled with the group.
//! * When this process dies by SIGKILL, the system kills the *direct* child only, and not if the child gained
//!   privileges by a set-user-ID program. Its own children live on. The lease covers this: nobody renews it any
//!   more, so it expires, and fencing tokens make the resource refuse what they still write.
//! * When this process alone is stopped by SIGSTOP, which cannot be caught, the child runs on while nobody renews.
//!   Its lease expires in the same way.
//! * A process in uninterruptible sleep dies only when the kernel lets it.

mod asked;
pub(crate) mod command;
#[cfg(not(unix))]
mod portable;
mod spec;
#[cfg_attr(not(unix), expect(dead_code, reason = "no job control there"))]
mod supervisor;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
use portable as platform;
#[cfg(unix)]
use unix as platform;

pub use asked::AskedToEnd;
pub use platform::Signals;
pub use spec::{ChildSpec, Ended, Interrupt};
pub use supervisor::{Event, Question, Supervisor};
