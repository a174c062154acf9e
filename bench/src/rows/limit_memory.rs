//! The memory store's checks beside governor's keyed limiter, both on the clocks that they come with.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::turn::Turn;
use crate::units::Unit;

const MOST: f64 = 2.0;
/// So many checks between two looks at the clock.
const BATCH: usize = 1_000;
/// Comes to every key before it comes to one again, and to neighbours never.
const STRIDE: usize = 61_803;
/// Keys, threads.
const SHAPES: [(usize, usize); 4] = [(1, 1), (1, 2), (100_000, 1), (100_000, 2)];

/// What is checked: a token bucket that never runs dry, or one that is dry but for a moment.
#[derive(Clone, Copy)]
enum Limit {
    Free,
    Dry,
}

/// Checks one key; answers whether it was allowed.
#[expect(clippy::ptr_arg, reason = "governor wants the key as it keeps it")]
trait Checks: Sync {
    fn check(&self, key: &String) -> bool;
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let free = SHAPES.iter().map(|(keys, threads)| row(plan, Limit::Free, *keys, *threads));
    let dry = SHAPES[..2].iter().map(|(keys, threads)| row(plan, Limit::Dry, *keys, *threads));
    free.chain(dry).collect()
}

fn row(plan: &Plan, limit: Limit, keys: usize, threads: usize) -> Result<Row> {
    let threads_are = if threads == 1 { "thread" } else { "threads" };
    let keys_are = if keys == 1 { "key" } else { "keys" };
    let answer = match limit {
        Limit::Free => "allowed",
        Limit::Dry => "denied",
    };
    let work = format!("memory store: check, {answer}, {keys} {keys_are}, {threads} {threads_are}");
    let names: Vec<String> = (0..keys).map(|number| format!("limit:login:t1Ab:user:{number:06}")).collect();
    let ours = ours::Store::new(limit)?;
    let figure = |turn| run(&ours, &names, threads, turn);
    #[cfg(feature = "peers")]
    {
        let peer = peer::Governor::new(limit)?;
        let pairs = plan.compare(|turn| run(&peer, &names, threads, turn), figure)?;
        let compared = pairs.by(Turn::nanoseconds)?;
        Ok(Row::compared(work, Unit::Nanoseconds, compared)
            .mark(Mark::RatioAtMost(MOST))
            .note("bare: governor"))
    }
    #[cfg(not(feature = "peers"))]
    {
        let spread = plan.repeat(|turn| figure(turn).map(|turn| turn.nanoseconds()))?;
        Ok(Row::alone(work, Unit::Nanoseconds, spread)
            .mark(Mark::RatioAtMost(MOST))
            .note("beside governor with `--features peers`"))
    }
}

/// Time per check of all threads together.
fn run(arm: &impl Checks, names: &[String], threads: usize, turn: Duration) -> Result<Turn> {
    let one = &|first: usize| {
        let (started, mut at, mut done) = (Instant::now(), first * STRIDE % names.len(), 0);
        while started.elapsed() < turn {
            for _ in 0..BATCH {
                std::hint::black_box(arm.check(std::hint::black_box(&names[at])));
                at = (at + STRIDE) % names.len();
            }
            done += BATCH as u64;
        }
        done
    };
    Turn::of(|| {
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|first| scope.spawn(move || one(first))).collect();
            let done = running.into_iter().map(|thread| thread.join());
            done.sum::<Result<u64, _>>().map_err(|_| anyhow::anyhow!("a thread panicked"))
        })
    })
}

mod ours {
    use std::sync::Arc;
    use std::time::Duration;

    use anyhow::{Context as _, Result};
    use lockkeeper::SystemClock;
    use lockkeeper::core::MemoryStore;
    use lockkeeper::core::limit::{self, Ask, Outcome, Quota};

    pub(super) struct Store {
        store: MemoryStore,
        quota: Quota,
    }

    impl Store {
        pub(super) fn new(limit: super::Limit) -> Result<Self> {
            let limit = match limit {
                super::Limit::Free => {
                    limit::Limit::token_bucket(1_000_000).refill(1_000_000_000, Duration::from_secs(1))
                }
                super::Limit::Dry => limit::Limit::token_bucket(10).refill(10, Duration::from_secs(1)),
            };
            let quota = limit?.quota().context("a token bucket is a quota")?;
            Ok(Self { store: MemoryStore::new(Arc::new(SystemClock)), quota })
        }
    }

    impl super::Checks for Store {
        fn check(&self, key: &String) -> bool {
            let checked = self.store.check_one(key.as_bytes(), self.quota, Ask::whole(1));
            checked.is_ok_and(|checked| matches!(checked.outcome, Outcome::Allowed { .. }))
        }
    }
}

#[cfg(feature = "peers")]
mod peer {
    use std::num::NonZeroU32;

    use anyhow::{Context as _, Result};
    use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

    pub(super) struct Governor(DefaultKeyedRateLimiter<String>);

    impl Governor {
        pub(super) fn new(limit: super::Limit) -> Result<Self> {
            let (rate, burst) = match limit {
                super::Limit::Free => (1_000_000_000, 1_000_000),
                super::Limit::Dry => (10, 10),
            };
            let number = |number: u32| NonZeroU32::new(number).context("a rate is not zero");
            Ok(Self(RateLimiter::keyed(Quota::per_second(number(rate)?).allow_burst(number(burst)?))))
        }
    }

    impl super::Checks for Governor {
        fn check(&self, key: &String) -> bool {
            self.0.check_key(key).is_ok()
        }
    }
}
