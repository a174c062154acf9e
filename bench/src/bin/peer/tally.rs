//! What tasks did, and the answer that a harness reads.

use std::time::Duration;

use serde_json::{Value, json};

/// What one task did, or all of them.
#[derive(Default)]
pub(crate) struct Tally {
    /// Nanoseconds of each operation that began after the warm-up.
    pub(crate) times: Vec<u64>,
    /// How many of them ended well: a release that released, a check that was allowed.
    pub(crate) good: u64,
    pub(crate) errors: u64,
    /// With the warm-up's.
    pub(crate) calls: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, mut other: Self) {
        self.times.append(&mut other.times);
        self.good += other.good;
        self.errors += other.errors;
        self.calls += other.calls;
    }

    pub(crate) fn answer(mut self, elapsed: Duration) -> Value {
        self.times.sort_unstable();
        let (ops, secs) = (self.times.len() as u64, elapsed.as_secs_f64());
        json!({
            "ops": ops, "good": self.good, "errors": self.errors, "calls": self.calls,
            "secs": secs, "rate": ops as f64 / secs,
            "p50_us": quantile(&self.times, 0.5), "p99_us": quantile(&self.times, 0.99),
        })
    }
}

/// The answer where nothing was timed one by one.
pub(crate) fn counted(ops: u64, good: u64, errors: u64, elapsed: Duration) -> Value {
    let secs = elapsed.as_secs_f64();
    json!({
        "ops": ops, "good": good, "errors": errors, "calls": ops,
        "secs": secs, "rate": ops as f64 / secs, "p50_us": null, "p99_us": null,
    })
}

/// Of sorted nanoseconds, in microseconds.
fn quantile(times: &[u64], part: f64) -> f64 {
    let rank = (times.len().saturating_sub(1) as f64 * part).round() as usize;
    times.get(rank).copied().unwrap_or(0) as f64 / 1e3
}
