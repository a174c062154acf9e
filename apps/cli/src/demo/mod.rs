//! `lockkeeper demo`: a flash sale, naive and protected; or what a lock does.

mod locks;
#[cfg(feature = "shop")]
mod shop;

use std::process::ExitCode;

use crate::common::Common;

/// See it: what a lock is, and what goes wrong without one.
#[cfg(not(feature = "shop"))]
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    #[command(subcommand)]
    what: What,
}

/// See it: a flash sale that sells too much, the same protected, and what a lock is.
///
/// Thousands of buyers, over real HTTP, want a hundred lanterns. They click twice, lose answers, come again; a worker
/// crashes. First the shop looks and then acts, then it decides in one step behind limits, locks and idempotency. Without
/// --url (or --env-url) everything is in this process, and it needs no server. With a Redis URL it starts itself as several shop
/// processes, and kills one of them midway; its keys there expire ten days later. Exit code 0: the protected shop sold exactly its stock; 1: it did not.
#[cfg(feature = "shop")]
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DemoArgs {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    shop: shop::SaleArgs,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Locks(locks::LocksArgs),
    /// One process of the shop.
    #[cfg(feature = "shop")]
    #[command(hide = true)]
    Process {
        /// As `lockkeeper-shop serve` reads them.
        #[arg(last = true)]
        words: Vec<String>,
    },
}

/// Runs it, on a runtime of its own.
///
/// # Errors
/// Bad URL; unreachable; a process, file or address of the demo failed.
#[cfg(feature = "shop")]
pub fn start(args: DemoArgs, common: &Common) -> anyhow::Result<ExitCode> {
    match args.what {
        Some(What::Locks(args)) => locks(args, common),
        Some(What::Process { words }) => threads()?.block_on(shop::process(&words)),
        None => threads()?.block_on(shop::run(args.shop, common)),
    }
}

/// Runs it, on a runtime of its own.
///
/// # Errors
/// Bad URL; unreachable; a process, file or address of the demo failed.
#[cfg(not(feature = "shop"))]
pub fn start(args: DemoArgs, common: &Common) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Locks(args) => locks(args, common),
    }
}

/// Its expected warnings are held back thread by thread, and it has one.
fn locks(args: locks::LocksArgs, common: &Common) -> anyhow::Result<ExitCode> {
    crate::args::block_on(locks::run(args, common))
}

#[cfg(feature = "shop")]
fn threads() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Whether the demo uses a server: one that an environment happens to name is not loaded with a demonstration.
fn store_url(env_url: bool, common: &Common) -> anyhow::Result<String> {
    if env_url || common.is_url_given() { common.url() } else { Ok("memory://".to_owned()) }
}
