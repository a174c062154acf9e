//! The demonstration: a flash sale, first naive, then protected; then orders that are sent twice.

mod act;
mod args;
mod host;
mod orders;
mod outcome;
mod print;
mod progress;
mod stage;

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::process::ExitCode;
use std::task::Poll;

use lockkeeper_shop::sale::Mode;
use lockkeeper_shop::serve::{ServeArgs, start};

use crate::common::Common;
use crate::exit::{Failure, INTERRUPTED, say};
pub(super) use args::SaleArgs;
use host::Host;
use outcome::{Act, Orders, Outcome};
use stage::Stage;

/// The protected shop sold too much, too little, or twice.
const BROKEN: u8 = 1;
/// Ended by SIGTERM, as shells say it.
const TERMINATED: u8 = 143;

/// Runs both sales, and the orders.
pub(super) async fn run(args: SaleArgs, common: &Common) -> anyhow::Result<ExitCode> {
    // It listens from its first poll on, so that is before anything is made that has to be cleaned up.
    let mut ended = pin!(interrupted());
    if let Poll::Ready(code) = poll_fn(|context| Poll::Ready(ended.as_mut().poll(context))).await {
        return Ok(ExitCode::from(code));
    }
    let stage = Stage::set(&args, common).await?;
    // Whatever is dropped here cleans up after itself: folders, processes.
    let (naive, protected, orders, host) = tokio::select! {
        played = play(&stage, !common.json) => played?,
        code = &mut ended => return Ok(ExitCode::from(code)),
    };
    let outcome =
        Outcome { store: stage.store.clone(), database: stage.database_kind(), naive, protected, orders };
    print::outcome(&outcome, common.json)?;
    if args.serve.is_some() {
        say(&format!("the shop's page is at http://{}/, Ctrl-C ends it", host.first()));
        ended.await;
    }
    host.close().await;
    match outcome.broken() {
        None => Ok(ExitCode::SUCCESS),
        Some(what) => Err(Failure::new(BROKEN, what).into()),
    }
}

async fn play(stage: &Stage, show: bool) -> anyhow::Result<(Act, Act, Orders, Host)> {
    let naive = act::play(stage, Mode::Naive, show).await?;
    let (protected, host) = act::play_and_keep(stage, Mode::Protected, show).await?;
    let orders = orders::play(&host).await?;
    Ok((naive, protected, orders, host))
}

/// Ctrl-C, or SIGTERM where there is one: what a shell says then.
async fn interrupted() -> u8 {
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => {
            if pressed.is_err() {
                std::future::pending::<()>().await;
            }
            INTERRUPTED
        }
        () = terminated() => TERMINATED,
    }
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending().await
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
