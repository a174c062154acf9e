//! The command line as typed, and where each command begins.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::common::Common;
use crate::demo::{self, DemoArgs};
use crate::doctor::{self, DoctorArgs};
use crate::exit::{self, USAGE};
use crate::limit::{self, LimitArgs};
use crate::ls::{self, LsArgs};
use crate::once::{self, OnceArgs};
use crate::quorum::{self, QuorumArgs};
use crate::release::{self, ReleaseArgs};
use crate::run::command::{self, RunArgs};
use crate::show::{self, ShowArgs};
use crate::watch::{self, WatchArgs};

const AFTER_HELP: &str = "\
Environment:
  LOCKKEEPER_URL, REDIS_URL  the server, unless --url is given
  LOCKKEEPER_TLS_CA, LOCKKEEPER_TLS_CERT, LOCKKEEPER_TLS_KEY
                             files for TLS, unless --ca, --cert and --key are given
  LOCKKEEPER_LOG             what is logged to standard error: error (default), warn, info, debug, …

A DURATION is a number and a unit: 500ms, 30s, 5m, 2h; also 1m30s.

Exit codes of lockkeeper itself:
   1  nothing to release or resolve, or declined    65  the key holds something else
   2  doctor: there is a problem                    69  the server is unreachable or refuses
  64  wrong usage                                   70  internal error
  75  busy: somebody else holds the lock;           76  the lock was lost while the command ran
      denied: a limit is used up for now            77  a limit can never hold so much
With run: those of the command; 126 and 127 as shells do; 128 + n for signal n. With watch: 130 after Ctrl-C.";

/// Distributed locks on Redis: put any program under a lock, and see who holds what. Limits. And
/// operations that run once.
///
/// A lock is a lease: it ends by itself when its holder dies. Every acquisition gets a fencing number, greater than
/// all before, by which a resource can refuse a late writer.
#[derive(Debug, Parser)]
#[command(name = "lockkeeper", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(RunArgs),
    Ls(LsArgs),
    Show(ShowArgs),
    Watch(WatchArgs),
    Release(ReleaseArgs),
    Limit(LimitArgs),
    Once(OnceArgs),
    Quorum(QuorumArgs),
    Doctor(DoctorArgs),
    Demo(DemoArgs),
}

/// The whole command.
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => {
            start_logging();
            start(cli).unwrap_or_else(|error| exit::report(&error))
        }
        Err(error) => refuse(&error),
    }
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    let common = &cli.common;
    match cli.command {
        // It catches signals before there is a runtime.
        Command::Run(args) => command::start(args, common),
        Command::Ls(args) => block_on(ls::run(args, common)),
        Command::Show(args) => block_on(show::run(args, common)),
        Command::Watch(args) => block_on(watch::run(args, common)),
        Command::Release(args) => block_on(release::run(args, common)),
        Command::Limit(args) => block_on(limit::run(args, common)),
        Command::Once(args) => block_on(once::run(args, common)),
        Command::Quorum(args) => block_on(quorum::run(args, common)),
        Command::Doctor(args) => block_on(doctor::run(args, common)),
        Command::Demo(args) => demo::start(args, common),
    }
}

/// Runs a command to its end; one thread is enough.
pub(crate) fn block_on(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(Box::pin(command))
}

/// Help and version go to standard output; everything else is a usage error.
fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as BareHelp;
    let text = error.render().to_string();
    match text.strip_prefix("error: ") {
        Some(text) if error.kind() != BareHelp => {
            // In the form of all our errors; what follows on further lines is clap's advice.
            let _ = write!(std::io::stderr(), "lockkeeper: {text}");
        }
        _ => _ = error.print(),
    }
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

fn start_logging() {
    let filter = EnvFilter::try_from_env("LOCKKEEPER_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(false)
        .compact()
        // Or a closed standard error would be a panic.
        .log_internal_errors(false)
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
