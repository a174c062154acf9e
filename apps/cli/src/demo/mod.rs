//! Shows locks at work.

use std::process::ExitCode;

use crate::common::Common;

/// What `lockkeeper demo` is told.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {}

/// Runs it.
///
/// # Errors
/// Never, so far.
pub async fn run(_args: DemoArgs, _common: &Common) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
