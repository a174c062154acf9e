//! How differential tests are run: from which seed, and with how many histories.

use proptest::test_runner::{Config, RngSeed, TestRunner};

/// `LOCKKEEPER_SEED`, to repeat a failure; another one for each process without it.
pub fn seed() -> u64 {
    number("LOCKKEEPER_SEED").unwrap_or_else(|| u64::from(std::process::id()))
}

/// `LOCKKEEPER_HISTORIES`, or so many.
pub fn histories(usual: u32) -> u64 {
    number("LOCKKEEPER_HISTORIES").unwrap_or(u64::from(usual))
}

/// A runner whose histories are those of `seed`.
pub fn runner(seed: u64) -> TestRunner {
    TestRunner::new(Config { rng_seed: RngSeed::Fixed(seed), ..Config::default() })
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
