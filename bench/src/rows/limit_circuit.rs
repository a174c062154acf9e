//! What a check costs while the server stands still and the circuit is open, by policy.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper::{Limiter, Source, WhenAway};
use lockkeeper_faults::RedisServer;

use crate::limits::{ensure_allowed, plenty, subject};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, on};
use crate::spread::{Spread, quantile};
use crate::stage::Stage;
use crate::units::Unit;

const CHECKS: u64 = 50_000;
const MOST_NS: f64 = 10_000.0;
/// Enough for the circuit to see that the server is silent.
const OPENING: u64 = 4;
const OPENED: Duration = Duration::from_millis(10);

/// The server stands still until this is dropped.
struct Stopped<'a>(&'a RedisServer);

impl<'a> Stopped<'a> {
    fn new(server: &'a RedisServer) -> Result<Self> {
        server.pause()?;
        Ok(Self(server))
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.resume() {
            eprintln!("the server still stands: {error}");
        }
    }
}

pub(crate) fn measure(_plan: &Plan) -> Result<Vec<Row>> {
    let stage = Stage::set(Flavour::TwoWorkers)?;
    let policies = [
        ("refuse", WhenAway::Refuse),
        ("allow", WhenAway::Allow),
        ("share", WhenAway::Share { instances: 4 }),
    ];
    let mut rows = Vec::new();
    for (name, policy) in policies {
        let limiter = stage.keeper.limiter("login", plenty()?)?.when_away(policy);
        let warm = limiter.clone();
        on(&stage.runtime, async move { ensure_allowed(&warm.check(subject(0)).await?) })?;
        let stopped = Stopped::new(&stage.server)?;
        let times = on(&stage.runtime, stopped_checks(limiter, policy))?;
        drop(stopped);
        settle(&stage)?;
        rows.push(row(name, times));
    }
    stage.strike()?;
    Ok(rows)
}

fn row(name: &str, mut times: Vec<f64>) -> Row {
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let slowest = Unit::Nanoseconds.show(quantile(&mut times, 0.999));
    let median = quantile(&mut times, 0.5);
    let spread = Spread { median, least: times.first().copied().unwrap_or(0.0), most: median.max(mean) };
    Row::alone(format!("check, server stopped, circuit open: {name}"), Unit::Nanoseconds, spread)
        .mark(Mark::Below(MOST_NS))
        .note(format!("mean {}, 99.9 % within {slowest}", Unit::Nanoseconds.show(mean)))
}

async fn stopped_checks(limiter: Limiter, policy: WhenAway) -> Result<Vec<f64>> {
    for _ in 0..OPENING {
        check(&limiter, 0, policy).await?;
    }
    let started = Instant::now();
    check(&limiter, 0, policy).await?;
    ensure!(started.elapsed() < OPENED, "the circuit is still closed");
    let mut times = Vec::with_capacity(CHECKS as usize);
    for number in 0..CHECKS {
        let started = Instant::now();
        check(&limiter, number % 16, policy).await?;
        times.push(started.elapsed().as_nanos() as f64);
    }
    Ok(times)
}

/// One check, whose answer has to be that of the policy.
async fn check(limiter: &Limiter, number: u64, policy: WhenAway) -> Result<()> {
    let (verdict, wanted) = match (limiter.check(subject(number)).await, policy) {
        (Err(error), WhenAway::Refuse) if error.is_transient() => return Ok(()),
        (Ok(verdict), WhenAway::Allow) => (verdict, Source::Unchecked),
        (Ok(verdict), WhenAway::Share { .. }) => (verdict, Source::Share),
        (other, policy) => bail!("Lockkeeper's arm: {policy:?}, and {other:?}"),
    };
    ensure_allowed(&verdict)?;
    ensure!(verdict.detail().source() == wanted, "Lockkeeper's arm: {verdict:?}");
    Ok(())
}

/// Waits until the keeper has found the server again.
fn settle(stage: &Stage) -> Result<()> {
    let limiter = stage.keeper.limiter("login", plenty()?)?;
    let again = async move {
        for _ in 0..1_000 {
            match limiter.check(subject(0)).await {
                Ok(verdict) => return ensure_allowed(&verdict),
                Err(_) => tokio::time::sleep(OPENED).await,
            }
        }
        bail!("the server goes on, and the keeper does not see it")
    };
    on(&stage.runtime, again).context("after the server went on")
}
