//! The memory store, uncontended: alone, and under a guard with its watchdog.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lockkeeper::core::lock::{Acquire, AcquireReply, FenceRequest, Lease, OwnerToken, Release, ReleaseReply};
use lockkeeper::core::{Key, Keys, MemoryStore, Prefix, Timestamp};
use lockkeeper::{Keeper, SystemClock};

use crate::arm::Same;
use crate::bare::{LEASE_MS, main_key, token};
use crate::pair::Plan;
use crate::row::{Mark, Row};
use crate::runtime::{Flavour, cycles, on};
use crate::spread::Spread;
use crate::stage::lock;
use crate::turn::Turn;
use crate::units::Unit;

const MOST_NS: f64 = 1_000.0;
const WITHIN: Duration = Duration::from_secs(2);
/// So many cycles between two looks at the clock.
const BATCH: u64 = 1_000;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let alone = Alone::new()?;
    let store = plan.repeat(|turn| Turn::of(|| alone.run(turn)).map(|turn| turn.nanoseconds()))?;
    let guarded = guarded(plan)?;
    Ok(vec![
        Row::alone("memory store: acquire + release, store alone", Unit::Nanoseconds, store)
            .mark(Mark::Below(MOST_NS)),
        Row::alone("memory store: acquire + release, guard and watchdog", Unit::Nanoseconds, guarded)
            .note(Flavour::TwoWorkers.name()),
    ])
}

/// The store with its decisions made beforehand; each call clones one, and so its token.
pub(super) struct Alone {
    store: MemoryStore,
    keys: Keys,
    acquire: Acquire,
    release: Release,
}

impl Alone {
    pub(super) fn new() -> Result<Self> {
        let token = OwnerToken::given(token(1))?;
        let lease = Lease::new(Duration::from_millis(LEASE_MS))?;
        let (fences, not_after) = (FenceRequest::default(), Timestamp::MAX);
        Ok(Self {
            store: MemoryStore::new(Arc::new(SystemClock)),
            keys: Key::new(&Prefix::empty(), main_key("order:1"))?.into(),
            acquire: Acquire { token: token.clone(), lease, fences, not_after },
            release: Release { token },
        })
    }

    pub(super) fn cycle(&self) -> Result<()> {
        let granted = self.store.apply_now(&self.keys, black_box(&self.acquire).clone(), WITHIN)?;
        ensure!(
            matches!(black_box(granted.reply), AcquireReply::Granted(_)),
            "the memory store did not grant"
        );
        let released = self.store.apply_now(&self.keys, black_box(&self.release).clone(), WITHIN)?;
        ensure!(black_box(released.reply) == ReleaseReply::Released, "the memory store did not release");
        Ok(())
    }

    fn run(&self, turn: Duration) -> Result<u64> {
        let started = Instant::now();
        let mut done = 0;
        while started.elapsed() < turn {
            (0..BATCH).try_for_each(|_| self.cycle())?;
            done += BATCH;
        }
        Ok(done)
    }
}

fn guarded(plan: &Plan) -> Result<Spread> {
    let runtime = Flavour::TwoWorkers.start()?;
    let keeper = on(&runtime, async { Ok(Keeper::connect("memory://").await?) })?;
    let spread = plan.repeat(|turn| {
        let lock = lock(&keeper, "order:1")?;
        Turn::of(|| on(&runtime, cycles(turn, Same(lock)))).map(|turn| turn.nanoseconds())
    })?;
    runtime.block_on(keeper.close(WITHIN));
    Ok(spread)
}
