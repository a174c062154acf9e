//! Every chore of the project.
//!
//! A chore lives here, and not in a script or in a CI file, so that a
//! contributor's machine and CI run the very same thing: `cargo xtask test`.

mod call;
mod chores;
mod cli;
mod provision;
mod run;
mod summary;
mod targets;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

fn main() -> anyhow::Result<ExitCode> {
    let task = cli::Cli::parse().task;
    let workspace = workspace::Workspace::find()?;
    let passed = run::run_all(&workspace, &chores::steps_of(&task), task.keep_going())?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
