//! `lockkeeper quorum init`.

use std::process::ExitCode;

use lockkeeper::redis::QuorumStore;

use super::status;

/// Open a brand-new majority: all its servers vote at once.
///
/// Only where nobody can hold a lock that one of them has forgotten. All servers have to be there; nothing is done where
/// one votes already.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Also where some vote already, or were marked by another list or with another max_lease. Nobody may hold a lock
    /// meanwhile, and the other list must not keep a majority.
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(args: InitArgs, store: &QuorumStore, json: bool) -> anyhow::Result<ExitCode> {
    let reports = store.init(args.force).await?;
    status::print(&reports, json)?;
    status::print_votes(&reports, store.majority(), json)?;
    Ok(ExitCode::SUCCESS)
}
