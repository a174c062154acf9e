//! The command line: what can be asked for.

use std::num::NonZeroU16;

use clap::{Args, Parser, Subcommand};

/// Every chore of the project.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct Cli {
    /// The chore to run.
    #[command(subcommand)]
    pub(crate) task: Task,
}

/// The chores.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Provision what the tests need, then run every check and every test.
    ///
    /// This is what CI runs. With `CI=true` a tool or a server which is missing
    /// and can't be installed is a failure; elsewhere it leaves tests out.
    Test(TestOptions),
    /// Install the servers and tools the tests need, each only if it is missing.
    Provision,
    /// Format, clippy, docs, and the bans, licences and sources of dependencies.
    Lint(Going),
    /// Look for known vulnerabilities in dependencies (needs the network).
    Advisories,
    /// Check that the library compiles for other systems, where their std is installed.
    Targets,
}

impl Task {
    /// Whether a failed step lets the following ones run.
    pub(crate) fn keep_going(&self) -> bool {
        match self {
            Task::Test(options) => options.going.keep_going,
            Task::Lint(going) => going.keep_going,
            Task::Provision | Task::Advisories | Task::Targets => false,
        }
    }
}

/// What to do after a failure.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Going {
    /// Run every step even after one failed, and sum up at the end.
    #[arg(long)]
    pub(crate) keep_going: bool,
}

/// The options of `test`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct TestOptions {
    #[command(flatten)]
    pub(crate) going: Going,
    /// How many tests run at once within one test binary [default: one per core].
    #[arg(long, value_name = "N")]
    pub(crate) test_threads: Option<NonZeroU16>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_test_are_read() {
        let cli = Cli::parse_from(["xtask", "test", "--keep-going", "--test-threads", "2"]);
        assert!(cli.task.keep_going());
        assert!(matches!(cli.task, Task::Test(options) if options.test_threads == NonZeroU16::new(2)));
    }
}
