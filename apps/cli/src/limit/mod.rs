//! `lockkeeper limit`: ask limits from the shell, look at them, give back, reset.

mod answer;
mod check;
mod undo;
mod watch;
mod what;

use std::process::ExitCode;

use clap::Subcommand;

use crate::common::Common;

/// Check limits, look at them, give back, reset.
///
/// A limit belongs to a name (`login`) and counts each key (`user:42`) by itself. Give the limits as the program that
/// shares them has them: their numbers are part of the key on the server, so others count apart.
#[derive(Debug, clap::Args)]
pub(crate) struct LimitArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Check(check::CheckArgs),
    Peek(check::PeekArgs),
    Refund(undo::RefundArgs),
    Reset(undo::ResetArgs),
    Watch(watch::WatchArgs),
}

pub(crate) async fn run(args: LimitArgs, common: &Common) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Check(args) => check::check(args, common).await,
        Verb::Peek(args) => check::peek(args, common).await,
        Verb::Refund(args) => undo::refund(args, common).await,
        Verb::Reset(args) => undo::reset(args, common).await,
        Verb::Watch(args) => watch::run(args, common).await,
    }
}
