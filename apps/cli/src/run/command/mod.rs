//! `lockkeeper run`: a program under a lock.
//!
//! * [`options`] is the command line, as typed and as resolved.
//! * [`session`] takes the lock, has the program looked after, and gives the lock back.
//! * [`watch`] ends the program before its lease does.

mod options;
mod session;
mod watch;

use std::process::ExitCode;

use anyhow::Context;

use super::Signals;
use crate::common::Common;

pub(crate) use options::RunArgs;

/// Runs it. Signals are caught first of all, before any other thread is started.
pub(crate) fn start(args: RunArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let (plan, builder) = args.resolve(common)?;
    let signals = Signals::install().context("signals cannot be caught")?;
    crate::args::block_on(session::run(plan, builder, signals))
}
