//! One process of a comparison of lock libraries; `bench/README.md` describes what it is told and what it answers.
//!
//! It does not use the library beside it, so that its allocator is the one that an application has.

mod args;
mod arm;
mod arms;
mod contend;
mod counter;
mod cycle;
#[path = "../../monotonic.rs"]
mod monotonic;
mod waiter;

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use tokio::runtime::{Builder, Runtime};

use args::Args;
use arm::Arm;
use arms::{Bare, Lockkeeper};

/// What can be asked for.
#[derive(Clone, Copy)]
enum Command {
    LockCycle,
    LockContend,
}

impl Command {
    fn named(name: &str) -> Result<Self> {
        match name {
            "lock-cycle" => Ok(Self::LockCycle),
            "lock-contend" => Ok(Self::LockContend),
            other => bail!("`{other}` is not measured here; there is lock-cycle and lock-contend"),
        }
    }
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let command = Command::named(&words.next().context("a command is needed")?)?;
    let args = Args::parse(words)?;
    let url = std::env::var("REDIS_URL").context("REDIS_URL says where Redis is")?;
    runtime()?.block_on(choose(command, &args, &url))
}

fn runtime() -> Result<Runtime> {
    let workers = match std::env::var("WORKERS") {
        Ok(count) => count.parse().ok().filter(|count| *count > 0).context("WORKERS is not a count")?,
        Err(_) => 2,
    };
    Ok(Builder::new_multi_thread().worker_threads(workers).enable_all().build()?)
}

async fn choose(command: Command, args: &Args, url: &str) -> Result<()> {
    match args.text("arm").unwrap_or("lockkeeper") {
        "lockkeeper" => run(command, args, Lockkeeper::connect(url).await?).await,
        "bare" => run(command, args, Bare::connect(url).await?).await,
        #[cfg(feature = "peers")]
        "rslock" => run(command, args, arms::Rslock::connect(url)).await,
        other => bail!("there is no arm `{other}`, at least not in this build"),
    }
}

async fn run(command: Command, args: &Args, arm: impl Arm) -> Result<()> {
    let arm = Arc::new(arm);
    let answer = match command {
        Command::LockCycle => cycle::run(args, &arm).await?,
        Command::LockContend => contend::run(args, &arm).await?,
    };
    arm.close().await;
    println!("{answer}");
    Ok(())
}
