//! The parts of the `lockkeeper` command.

pub mod run;
