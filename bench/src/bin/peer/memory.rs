//! `limit-mem`: checks inside this process, by threads without a runtime. A check of the memory store never waits, so its
//! future is ready when it is first polled.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use lockkeeper::{Keeper, Limiter};
use serde_json::Value;

use crate::args::Args;
use crate::limits::{limit, subject};
use crate::random::Random;
use crate::tally::counted;

/// So many checks between two looks at the clock.
const BATCH: u64 = 256;

pub(crate) fn run(args: &Args) -> Result<Value> {
    let keeper = now(Keeper::connect("memory://"))??;
    let limiter = keeper.limiter("bench", limit(args, 1_000_000_000, 1.0)?)?;
    if args.text("checks").is_some() {
        return admit(&limiter, args.needed_number("checks")?);
    }
    let (keys, threads): (u64, u64) = (args.number("keys", 1)?, args.number("threads", 1)?);
    let subjects: Vec<String> = (0..keys.max(1)).map(subject).collect();
    // Each subject once, so that what is measured is known subjects.
    subjects.iter().try_for_each(|subject| allowed(&limiter, subject).map(drop))?;
    let (started, time) = (Instant::now(), args.seconds("secs", 1.0)?);
    let done = thread::scope(|scope| -> Result<Vec<(u64, u64)>> {
        let (limiter, subjects) = (&limiter, &subjects);
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || checks(limiter, subjects, Random::new(thread), time)))
            .collect();
        running.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?).collect()
    })?;
    let (ops, good) = done.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Ok(counted(ops, good, 0, started.elapsed()))
}

/// How many checks, and how many of them were allowed.
fn checks(limiter: &Limiter, subjects: &[String], mut random: Random, time: Duration) -> Result<(u64, u64)> {
    let (mut done, mut good, started) = (0, 0, Instant::now());
    while started.elapsed() < time {
        for _ in 0..BATCH {
            let subject = &subjects[random.below(subjects.len() as u64) as usize];
            good += u64::from(allowed(limiter, subject)?);
        }
        done += BATCH;
    }
    Ok((done, good))
}

fn admit(limiter: &Limiter, count: u64) -> Result<Value> {
    let (mut good, started) = (0, Instant::now());
    for _ in 0..count {
        good += u64::from(allowed(limiter, "admit:key")?);
    }
    Ok(counted(count, good, 0, started.elapsed()))
}

fn allowed(limiter: &Limiter, subject: &str) -> Result<bool> {
    Ok(now(limiter.check(subject))??.is_allowed())
}

fn now<T>(future: impl Future<Output = T>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Ok(answer),
        Poll::Pending => bail!("the memory store waited"),
    }
}
