//! The parts of the `lockkeeper` command.

mod args;
mod certificates;
pub mod common;
pub mod demo;
pub mod doctor;
pub mod exit;
mod limit;
mod ls;
mod once;
mod quorum;
mod release;
pub mod run;
mod show;
mod table;
mod waiters;
mod watch;

pub use args::{Cli, main};
