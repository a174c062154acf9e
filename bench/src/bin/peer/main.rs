//! One process of a comparison of libraries for locks and limits; `bench/README.md` describes what it is told and what it answers.
//!
//! It does not use the library beside it, so that its allocator is the one that an application has.

mod args;
mod arm;
mod arms;
mod contend;
mod counter;
mod cycle;
mod limits;
mod memory;
#[path = "../../monotonic.rs"]
mod monotonic;
mod random;
mod tally;
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
    /// On Redis, by its name.
    Limit(&'static str),
    LimitMem,
}

impl Command {
    fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "lock-cycle" => Self::LockCycle,
            "lock-contend" => Self::LockContend,
            "limit-redis" => Self::Limit("limit-redis"),
            "limit-admit" => Self::Limit("limit-admit"),
            "limit-fill" => Self::Limit("limit-fill"),
            "limit-mem" => Self::LimitMem,
            other => bail!("`{other}` is not measured here; bench/README.md says what is"),
        })
    }
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let command = Command::named(&words.next().context("a command is needed")?)?;
    let args = Args::parse(words)?;
    if matches!(command, Command::LimitMem) {
        println!("{}", memory::run(&args)?);
        return Ok(());
    }
    let url = std::env::var("REDIS_URL").context("REDIS_URL says where Redis is")?;
    runtime()?.block_on(choose(command, &args, &url))
}

/// `arm=` says which; a harness that names its peers says it by a `peer=` that is one of ours.
fn arm(args: &Args) -> &str {
    let named = args.text("peer").filter(|name| name.starts_with("lockkeeper-"));
    args.text("arm").or(named).unwrap_or("lockkeeper")
}

fn runtime() -> Result<Runtime> {
    let workers = match std::env::var("WORKERS") {
        Ok(count) => count.parse().ok().filter(|count| *count > 0).context("WORKERS is not a count")?,
        Err(_) => 2,
    };
    Ok(Builder::new_multi_thread().worker_threads(workers).enable_all().build()?)
}

async fn choose(command: Command, args: &Args, url: &str) -> Result<()> {
    let arm = arm(args);
    if let Command::Limit(name) = command {
        println!("{}", limits::run(name, args, arm, url).await?);
        return Ok(());
    }
    match arm {
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
        Command::Limit(_) | Command::LimitMem => bail!("no command of locks"),
    };
    arm.close().await;
    println!("{answer}");
    Ok(())
}
