//! What a rush came to.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// What a rush came to.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How many buyers there were.
    pub buyers: u32,
    /// From the first click to the last answer.
    pub seconds: f64,
    /// Clicks, with those whose answer nobody read.
    pub requests: u64,
    /// Answers that came, for each second.
    pub answers_per_second: f64,
    /// Answers by name: `accepted`, `already-bought`, a refusal's reason, `no-answer`, `left-before-the-answer`.
    pub answers: BTreeMap<String, u64>,
    /// Buyers by how they ended: `bought`, a refusal's reason, `gave-up`, `unfinished`.
    pub ends: BTreeMap<String, u64>,
    /// Buyers who saw a ticket.
    pub tickets: u64,
    /// Different ones among these. Fewer: two buyers have the same.
    pub distinct_tickets: u64,
    /// Answers that gave a buyer another ticket than before.
    pub contradictions: u64,
    /// Of answers that came.
    pub latency: Latency,
}

/// How long answers took, in milliseconds; exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Half of them took no longer.
    pub p50_ms: f64,
    /// Nine of ten took no longer.
    pub p90_ms: f64,
    /// All but one of a hundred took no longer.
    pub p99_ms: f64,
    /// None took longer.
    pub max_ms: f64,
}

impl Latency {
    pub(super) fn of(all: &mut [Duration]) -> Self {
        all.sort_unstable();
        let at = |share: f64| {
            let rank = (all.len() as f64 * share).ceil() as usize;
            // To the microsecond: what is beyond is noise.
            all.get(rank.saturating_sub(1)).map_or(0.0, |took| took.as_micros() as f64 / 1e3)
        };
        Self { p50_ms: at(0.5), p90_ms: at(0.9), p99_ms: at(0.99), max_ms: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let mut all: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        let expected = Latency { p50_ms: 50.0, p90_ms: 90.0, p99_ms: 99.0, max_ms: 100.0 };
        assert_eq!(Latency::of(&mut all), expected);
        assert_eq!(Latency::of(&mut []), Latency::default());
        let one = Latency::of(&mut [Duration::from_millis(3)]);
        assert_eq!((one.p50_ms, one.max_ms), (3.0, 3.0));
    }
}
