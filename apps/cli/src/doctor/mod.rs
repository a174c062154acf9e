//! Checks a server and says what would hurt locks.

use std::process::ExitCode;

use crate::common::Common;

/// What `lockkeeper doctor` is told.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {}

/// Runs it.
///
/// # Errors
/// Never, so far.
pub async fn run(_args: DoctorArgs, _common: &Common) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
