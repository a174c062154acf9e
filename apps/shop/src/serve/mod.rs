//! `lockkeeper-shop serve`: one process of the shop. Several of them on one Redis and one database are one shop.

mod args;
mod chores;
mod listen;
mod opening;
mod running;

pub use args::{ServeArgs, ShopArgs, ShopCommand};
pub use running::{Running, STOP_WITHIN, start};

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tracing_subscriber::EnvFilter;

/// What is logged.
const LOG: &str = "LOCKKEEPER_LOG";

/// The command: reads what was typed, and serves until it is told to end.
pub fn main() -> ExitCode {
    let ShopArgs { command: ShopCommand::Serve(args) } = ShopArgs::parse();
    let filter = EnvFilter::try_from_env(LOG).unwrap_or_else(|_| EnvFilter::new("warn"));
    let is_coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_coloured)
        .init();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lockkeeper-shop: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: ServeArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let running = start(args).await?;
        println!("listening on http://{}", running.address());
        told_to_end().await;
        running.stop().await;
        Ok(())
    });
    runtime.shutdown_timeout(STOP_WITHIN);
    served
}

/// Ctrl-C, or SIGTERM where there is one.
async fn told_to_end() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => {}
        () = terminated() => {}
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
