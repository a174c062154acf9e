//! `lockkeeper demo locks`: what goes wrong without a lock, what a lock does, and what only a fence does.

mod child;
mod counter;
mod dialogue;
mod endpoint;
mod episodes;
mod in_process;
mod line;
mod metrics;
mod outcome;
mod print;
mod processes;
mod progress;
mod stall;
mod trouble;
mod work;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::common::Common;
use crate::exit::Failure;
use episodes::Pair;
use metrics::{Metrics, MetricsArgs};
use outcome::Outcome;
use work::Load;

/// The protected counter lost an update, or the fence failed.
const BROKEN: u8 = 1;

/// What is logged.
const LOG: &str = "LOCKKEEPER_LOG";

/// Show what goes wrong without a lock, what a lock does, and what only a fence does.
///
/// Without --url (or --env-url) it runs on a store inside this process and needs no server. With a server's URL it starts
/// itself as several processes that share a counter in a file. Then it lets two keepers of one process wait in line, and
/// makes some trouble, so that every metric has something to show (see --metrics). Its keys carry a random id; the locks are released, their fences expire after two days. It takes a few seconds; many more
/// workers or rounds take longer. Exit code 0: the lock and the fence held; 1: they did not.
#[derive(Debug, clap::Args)]
pub(super) struct LocksArgs {
    /// How many workers, all in all.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    workers: u32,

    /// How often each of them adds one to the counter.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,

    /// Over how many processes they are spread, with a server's URL.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    processes: u32,

    /// Use the server that LOCKKEEPER_URL or REDIS_URL names.
    #[arg(long)]
    env_url: bool,

    #[command(flatten)]
    metrics: MetricsArgs,

    #[command(flatten)]
    child: ChildArgs,
}

/// What the demo tells the processes that it starts.
#[derive(Debug, clap::Args)]
struct ChildArgs {
    #[arg(long, hide = true)]
    role: Option<Role>,
    #[arg(long, hide = true, requires = "role", default_value = "")]
    lock: String,
    #[arg(long, hide = true, requires = "role")]
    counter: Option<PathBuf>,
}

/// What such a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// Counts without a lock.
    Free,
    /// Counts under the lock.
    Locked,
    /// Takes the lock with a short lease, and stalls.
    Stalled,
    /// Takes the lock over.
    Successor,
}

/// Runs it.
///
/// # Errors
/// Bad URL; unreachable; a process or file of the demo failed.
pub(super) async fn run(args: LocksArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let load = Load { workers: args.workers, rounds: args.rounds };
    if let Some(role) = args.child.role {
        let keeper = common.builder()?.connect().await?;
        child::run(role, &keeper, &args.child, load).await?;
        keeper.close(std::time::Duration::from_secs(1)).await;
        return Ok(ExitCode::SUCCESS);
    }
    let metrics = Metrics::install()?;
    args.metrics.offer(&metrics)?;
    let url = super::store_url(args.env_url, common)?;
    let outcome = if url.starts_with("memory:") {
        in_process::run(&url, load, !common.json, &metrics).await?
    } else {
        // Says in one line what is wrong with the URL or the server, before several processes do.
        let keeper = common.builder()?.connect().await?;
        let address = keeper.health().await.address;
        keeper.close(std::time::Duration::ZERO).await;
        let crew = processes::Crew { url, address, processes: args.processes.min(args.workers), load };
        let pair = Pair::connect(|| common.builder()).await?;
        crew.run(pair, !common.json, &metrics).await?
    };
    let end = finish(&outcome, common.json);
    args.metrics.keep_open().await?;
    end
}

fn finish(outcome: &Outcome, json: bool) -> anyhow::Result<ExitCode> {
    print::outcome(outcome, json)?;
    match outcome.broken() {
        None => Ok(ExitCode::SUCCESS),
        Some(what) => Err(Failure::new(BROKEN, what).into()),
    }
}

/// Warnings that belong to the demonstration are held back, unless somebody asked for a log.
fn quiet() -> bool {
    std::env::var_os(LOG).is_none()
}

/// A lock's name that no other run has.
fn unique_name() -> String {
    format!("lockkeeper-demo-{:016x}", RandomState::new().hash_one(std::process::id()))
}
