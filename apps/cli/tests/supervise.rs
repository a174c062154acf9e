//! The supervision of a child, with real processes. Nothing here sleeps and hopes: every step waits for a condition.
//!
//! The scripts wait in a loop of `(sleep 0.02)`, in parentheses. Without them some shells use vfork: stopped in the
//! short time before the exec, the new process keeps its parent from stopping. No job control can help that.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not inside the test functions")]

#[path = "supervise/bench.rs"]
mod bench;
#[path = "supervise/ends.rs"]
mod ends;
#[path = "supervise/job_control.rs"]
mod job_control;
#[path = "supervise/signals.rs"]
mod signals;
#[path = "supervise/terminal.rs"]
mod terminal;
