//! Looking after a child on Unix: process groups, signals and the terminal.
//!
//! * [`signals`] catches the signals that reach this process.
//! * [`group`] is the child and its process group: start, signal, wait.
//! * [`zombies`] tells a group's dead members from the living.
//! * [`terminal`] lends the terminal to the child and takes it back.
//! * [`control`] decides what to do when: the only part with a state.
//! * [`sys`] is all the unsafe code.

mod control;
mod group;
mod signals;
mod sys;
mod terminal;
mod zombies;

use super::Ended;
use super::supervisor::{Desk, Event};

pub use signals::Signals;
pub(super) use sys::act_on_self;

/// The thread that looks after the child. It starts the child itself, so that it is the "parent" to whose life the
/// child's is tied.
pub(super) fn supervise(desk: Desk) {
    let events = desk.events.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(control::supervise(desk)),
        Err(error) => Ended::Failed(error),
    };
    // Fails only if nobody wants to know.
    let _ = events.send(Event::Ended(ended));
}
