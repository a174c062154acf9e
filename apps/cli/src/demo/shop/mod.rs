//! The demonstration: a flash sale, first naive, then protected; then orders that are sent twice.

mod act;
mod args;
mod host;
mod orders;
mod outcome;
mod print;
mod progress;
mod stage;

use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;

use lockkeeper_shop::sale::Mode;
use lockkeeper_shop::serve::{ServeArgs, start};

use crate::common::Common;
use crate::exit::{Failure, say};
pub(super) use args::SaleArgs;
use outcome::Outcome;
use stage::Stage;

/// The protected shop sold too much, too little, or twice.
const BROKEN: u8 = 1;

/// Runs both sales, and the orders.
pub(super) async fn run(args: SaleArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let stage = Stage::set(&args, common).await?;
    let show = !common.json;
    let naive = act::play(&stage, Mode::Naive, show).await?;
    let (protected, host) = act::play_and_keep(&stage, Mode::Protected, show).await?;
    let orders = orders::play(&host).await?;
    let outcome =
        Outcome { store: stage.store.clone(), database: stage.database_kind(), naive, protected, orders };
    print::outcome(&outcome, common.json)?;
    if args.serve.is_some() {
        say(&format!("the shop's page is at http://{}/, Ctrl-C ends it", host.first()));
        tokio::signal::ctrl_c().await?;
    }
    host.close().await;
    match outcome.broken() {
        None => Ok(ExitCode::SUCCESS),
        Some(what) => Err(Failure::new(BROKEN, what).into()),
    }
}

/// One process of the shop: says where it listens, and ends with the demo that started it, or when it is told to.
pub(super) async fn process(words: &[String]) -> anyhow::Result<ExitCode> {
    let running = start(ServeArgs::typed(words.iter().map(String::as_str))?).await?;
    println!("{}{}", host::LISTENING, running.address());
    let demo_ended =
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
    tokio::select! {
        _ = demo_ended => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    running.stop().await;
    // A standard input that nobody closes must not keep it.
    std::process::exit(0)
}

/// What no other run has.
fn unique() -> String {
    format!("{:08x}", RandomState::new().hash_one(std::process::id()) >> 32)
}
