//! `limit-redis`, `limit-admit` and `limit-fill`: checks on Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use lockkeeper::{Error, Keeper, LeasedLimiter, Limit, Limiter, Verdict};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::random::Random;
use crate::tally::{Tally, counted};

const NAME: &str = "bench";
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// A limiter as one of the variants.
#[derive(Clone)]
enum Checks {
    Plain(Limiter),
    Leased(LeasedLimiter),
}

impl Checks {
    fn new(keeper: &Keeper, variant: &str, limit: Limit) -> Result<Self> {
        let limiter = keeper.limiter(NAME, limit)?;
        Ok(match variant {
            "lockkeeper" => Self::Plain(limiter),
            "lockkeeper-exact" => Self::Plain(limiter.exact()),
            "lockkeeper-leased" => Self::Leased(limiter.leased()?),
            other => bail!("there is no arm `{other}` of limits"),
        })
    }

    async fn check(&self, subject: &str) -> Result<Verdict, Error> {
        match self {
            Self::Plain(limiter) => limiter.check(subject).await,
            Self::Leased(leased) => leased.check(subject).await,
        }
    }
}

/// A token bucket that holds what comes in within the window.
pub(crate) fn limit(args: &Args, count: u64, window: f64) -> Result<Limit> {
    let (count, window) = (args.number("limit", count)?, args.seconds("window", window)?);
    Ok(Limit::token_bucket(count).refill(count, window)?)
}

pub(crate) fn subject(number: u64) -> String {
    format!("user:{number:06}")
}

/// Runs one of the commands against the Redis at `url`.
pub(crate) async fn run(command: &str, args: &Args, variant: &str, url: &str) -> Result<Value> {
    let keeper = Keeper::connect(url).await?;
    let limit = match command {
        "limit-redis" => limit(args, 1_000_000_000, 60.0)?,
        "limit-admit" => limit(args, 100, 60.0)?,
        _ => limit(args, 10, 3600.0)?,
    };
    let checks = Checks::new(&keeper, variant, limit)?;
    let answer = match command {
        "limit-redis" => steadily(args, checks).await?,
        "limit-admit" => admit(args, checks).await?,
        _ => fill(args, checks).await?,
    };
    keeper.close(CLOSE_WITHIN).await;
    Ok(answer)
}

async fn steadily(args: &Args, checks: Checks) -> Result<Value> {
    let (tasks, keys): (u64, u64) = (args.number("tasks", 1)?, args.number("keys", 1)?);
    let begin = Instant::now() + args.seconds("warm", 0.3)?;
    let end = begin + args.seconds("secs", 1.5)?;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        running.spawn(until(end, begin, checks.clone(), Random::new(task), keys.max(1)));
    }
    let mut sum = Tally::default();
    while let Some(done) = running.join_next().await {
        sum.add(done?);
    }
    Ok(sum.answer(begin.elapsed()))
}

async fn until(end: Instant, begin: Instant, checks: Checks, mut random: Random, keys: u64) -> Tally {
    let mut done = Tally::default();
    loop {
        let subject = subject(random.below(keys));
        let started = Instant::now();
        if started >= end {
            return done;
        }
        let verdict = checks.check(&subject).await;
        done.calls += 1;
        if started >= begin {
            done.times.push(started.elapsed().as_nanos() as u64);
            match verdict {
                Ok(verdict) => done.good += u64::from(verdict.is_allowed()),
                Err(_) => done.errors += 1,
            }
        }
    }
}

async fn admit(args: &Args, checks: Checks) -> Result<Value> {
    let (tasks, count): (u64, u64) = (args.number("tasks", 1)?, args.number("checks", 300)?);
    let (started, taken) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (checks, taken) = (checks.clone(), taken.clone());
        running.spawn(async move {
            let (mut good, mut errors) = (0, 0);
            while taken.fetch_add(1, Relaxed) < count {
                note(checks.check("admit:key").await, &mut good, &mut errors);
            }
            (good, errors)
        });
    }
    let (good, errors) = sum(running).await?;
    Ok(counted(count, good, errors, started.elapsed()))
}

async fn fill(args: &Args, checks: Checks) -> Result<Value> {
    let (from, to): (u64, u64) = (args.number("from", 0)?, args.number("to", 100_000)?);
    let (tasks, started) = (args.number("tasks", 64_usize)?, Instant::now());
    let mut running = JoinSet::new();
    for task in 0..tasks as u64 {
        let checks = checks.clone();
        running.spawn(async move {
            let (mut good, mut errors) = (0, 0);
            for number in (from + task..to).step_by(tasks) {
                note(checks.check(&subject(number)).await, &mut good, &mut errors);
            }
            (good, errors)
        });
    }
    let (good, errors) = sum(running).await?;
    Ok(counted(to.saturating_sub(from), good, errors, started.elapsed()))
}

fn note(verdict: Result<Verdict, Error>, good: &mut u64, errors: &mut u64) {
    match verdict {
        Ok(verdict) => *good += u64::from(verdict.is_allowed()),
        Err(error) => {
            if *errors == 0 {
                eprintln!("{error}");
            }
            *errors += 1;
        }
    }
}

async fn sum(mut running: JoinSet<(u64, u64)>) -> Result<(u64, u64)> {
    let (mut good, mut errors) = (0, 0);
    while let Some(done) = running.join_next().await {
        let done = done?;
        good += done.0;
        errors += done.1;
    }
    Ok((good, errors))
}
