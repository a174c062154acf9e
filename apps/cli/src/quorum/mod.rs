//! `lockkeeper quorum`: a majority of independent servers, opened and looked at.

mod init;
mod status;
mod wait;

use std::process::ExitCode;

use clap::Subcommand;
use lockkeeper::Keeper;
use lockkeeper::redis::QuorumStore;

use crate::common::Common;
use crate::exit::Failure;

/// Open a majority of independent servers, and see which of them vote.
///
/// A server that was restarted may have forgotten leases, so it abstains for as long as the longest lease
/// (max_lease in the URL). A brand-new majority has nothing to forget: `quorum init` opens it at once.
/// Some client has to stay connected for max_lease until a restarted server votes again: `quorum wait` is one.
#[derive(Debug, clap::Args)]
pub(crate) struct QuorumArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::InitArgs),
    /// Show which servers vote, and why others do not.
    ///
    /// RUN is the server process, by the beginning of its run id; MARKED is the run that may vote, by the marker on the
    /// server: where it is another one, or none, the server abstains for max_lease (by default 60s). CLOCK is by how much
    /// its clock is ahead of this machine's. Exit code 69: fewer than a majority vote.
    Status,
    Wait(wait::WaitArgs),
}

pub(crate) async fn run(args: QuorumArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let keeper = common.builder()?.lazy().connect().await?;
    match args.verb {
        Verb::Init(args) => init::run(args, store(&keeper)?, common.json).await,
        Verb::Status => status::run(store(&keeper)?, common.json).await,
        Verb::Wait(args) => wait::run(args, store(&keeper)?, common.json).await,
    }
}

fn store(keeper: &Keeper) -> anyhow::Result<&QuorumStore> {
    let wanted = "this is for a majority of servers: use --url redis+quorum://host,host,host";
    keeper.quorum_store().ok_or_else(|| Failure::usage(wanted).into())
}
