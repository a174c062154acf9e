//! What one call to the server takes at this time on this machine, by the bare client.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::bare::{Bare, main_key, token};
use crate::spread::quantile;

const CYCLES: u64 = 100;

/// Medians in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    /// One call after the other.
    pub(crate) busy: f64,
    /// After a pause, as a lock that is held for a while is released: processors have gone to sleep meanwhile.
    pub(crate) rested: f64,
}

impl RoundTrip {
    pub(crate) async fn measure(mut bare: Bare, rest: Duration) -> Result<Self> {
        let mut times = [Vec::new(), Vec::new()];
        for number in 0..CYCLES {
            for (times, rest) in times.iter_mut().zip([Duration::ZERO, rest]) {
                calls(&mut bare, number, rest, times).await?;
            }
        }
        let [busy, rested] = &mut times;
        Ok(Self { busy: quantile(busy, 0.5), rested: quantile(rested, 0.5) })
    }

    pub(crate) fn between(one: Self, other: Self) -> Self {
        let middle = |one: f64, other: f64| f64::midpoint(one, other);
        Self { busy: middle(one.busy, other.busy), rested: middle(one.rested, other.rested) }
    }
}

/// An acquire and a release of a key of its own, timed one by one.
async fn calls(bare: &mut Bare, number: u64, rest: Duration, times: &mut Vec<f64>) -> Result<()> {
    let (key, token) = (main_key("round-trip"), token(number));
    let mut started = after(rest).await;
    bare.acquire(&key, &token).await?;
    times.push(started.elapsed().as_nanos() as f64);
    started = after(rest).await;
    bare.release(&key, &token).await?;
    times.push(started.elapsed().as_nanos() as f64);
    Ok(())
}

async fn after(rest: Duration) -> Instant {
    if !rest.is_zero() {
        tokio::time::sleep(rest).await;
    }
    Instant::now()
}
