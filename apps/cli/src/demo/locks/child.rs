//! What a process does that the demo has started.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use lockkeeper::{Keeper, Lock};

use super::counter::Counter;
use super::dialogue::{DID, DONE, HELD, LOST, READY, WRITE, end_with_the_demo, say, wait_for_go};
use super::work::{Load, count};
use super::{ChildArgs, Role, stall};

pub(super) async fn run(role: Role, keeper: &Keeper, args: &ChildArgs, load: Load) -> anyhow::Result<()> {
    let lock = keeper.lock(&args.lock)?;
    match role {
        Role::Free => counting(None, args, load).await,
        Role::Locked => counting(Some(&lock), args, load).await,
        Role::Stalled => stalling(&lock).await,
        Role::Successor => succeeding(&lock).await,
    }
}

async fn counting(lock: Option<&Lock>, args: &ChildArgs, load: Load) -> anyhow::Result<()> {
    let counter = Counter::File(args.counter.clone().context("no counter is given")?);
    say(READY)?;
    wait_for_go()?;
    let done = Arc::new(AtomicBool::new(false));
    end_with_the_demo(&done);
    let tally = count(&counter, lock, load, |updates| {
        // Only the progress bar is the poorer for it.
        let _ = say(&format!("{DID} {updates}"));
    });
    let tally = tally.await?;
    done.store(true, Ordering::Release);
    say(&format!("{DONE} {} {}", tally.updates, tally.longest_wait.as_micros()))
}

async fn stalling(lock: &Lock) -> anyhow::Result<()> {
    let guard = stall::take_briefly(lock).await?;
    say(&format!("{HELD} {}", guard.fence()?))?;
    let reason = guard.lost().await;
    say(&format!("{LOST} {reason}"))?;
    wait_for_go()?;
    say(&format!("{WRITE} {}", guard.fence()?))
}

async fn succeeding(lock: &Lock) -> anyhow::Result<()> {
    let guard = stall::take_over(lock).await?;
    say(&format!("{HELD} {}", guard.fence()?))?;
    wait_for_go()?;
    guard.release().await?;
    Ok(())
}
