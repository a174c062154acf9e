//! `lock-contend`: waiters that fight for one key from a given moment on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::args::Args;
use crate::arm::{Arm, Lock};
use crate::counter::Counter;
use crate::waiter::{Terms, Waiter};

/// So long after the end, what is still waiting is given up.
const AFTERWARDS: Duration = Duration::from_secs(3);

pub(crate) async fn run<A: Arm>(args: &Args, arm: &Arc<A>) -> Result<Value> {
    let (key, out) = (args.needed("key")?, args.needed("out")?);
    let terms = Arc::new(terms(args)?);
    let waiters = waiters(args, arm.as_ref(), key, &terms)?;
    warm_up(arm.as_ref(), key).await?;
    let mut running = JoinSet::new();
    for waiter in waiters {
        running.spawn(waiter.run_until(AFTERWARDS));
    }
    let with_fences = args.number("fences", 0)? == 1;
    let (mut text, mut bad, mut given_up) = (String::new(), 0, 0);
    while let Some(waiter) = running.join_next().await {
        let waiter = waiter??;
        waiter.write(&mut text, with_fences)?;
        bad += waiter.bad_releases;
        given_up += u64::from(waiter.given_up);
    }
    std::fs::write(out, text).with_context(|| format!("writing {out}"))?;
    Ok(
        json!({ "bad_release": bad, "fence_disorder": terms.fence_disorder.load(Relaxed), "given_up": given_up }),
    )
}

fn terms(args: &Args) -> Result<Terms> {
    let start: u64 = args.needed_number("start_ns")?;
    Ok(Terms {
        start,
        end: start + args.seconds("secs", 5.0)?.as_nanos() as u64,
        hold: args.milliseconds("hold_ms")?,
        pause: args.milliseconds("think_ms")?,
        counter: Counter::open(args.needed("counter")?)?,
        last_fence: AtomicU64::new(0),
        fence_disorder: AtomicU64::new(0),
    })
}

fn waiters<L: Lock>(
    args: &Args,
    arm: &impl Arm<Lock = L>,
    key: &str,
    terms: &Arc<Terms>,
) -> Result<Vec<Waiter<L>>> {
    let count: usize = args.number("waiters", 4)?;
    (0..count).map(|number| Ok(Waiter::new(number, arm.lock(key)?, terms.clone()))).collect()
}

/// Connects and makes the scripts known, on a key of this process alone.
async fn warm_up(arm: &impl Arm, key: &str) -> Result<()> {
    let mut lock = arm.lock(&format!("{key}:warm:{}", std::process::id()))?;
    let held = lock.acquire().await?;
    lock.release(held).await;
    Ok(())
}
