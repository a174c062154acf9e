//! A TCP proxy in front of a server that cuts, holds, slows and loses what passes through it.

mod acceptor;
mod connection;
mod control;
mod lane;
mod queue;
mod registry;
mod rules;
mod stats;
mod thread;

pub use control::FaultProxy;
pub use rules::DropReply;
pub use stats::Stats;
