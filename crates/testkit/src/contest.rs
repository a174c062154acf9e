//! Keepers that contend for keys while something goes wrong, and what came of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockkeeper::core::{Clock, Uptime};
use lockkeeper::{Error, Keeper, LockGuard, Released, SystemClock};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::history::{self, Section};

/// How long one acquire waits for its turn.
const WAIT: Duration = Duration::from_secs(3);
/// An acquire that is not back so long after that hangs.
const HANGS: Duration = Duration::from_secs(10);
/// What is written to the unprotected counter is written so long before the guard would end.
const LEFT: Duration = Duration::from_millis(100);
/// The pause after an error.
const AGAIN: Duration = Duration::from_millis(5);

/// How it is contended. One task per keeper and key takes, stays inside, and releases.
#[derive(Clone, Debug)]
pub struct Contest {
    /// The keys.
    pub names: Vec<String>,
    /// The lease.
    pub lease: Duration,
    /// It is renewed.
    pub renewed: bool,
    /// One section of so many is long: longer than the lease where that is renewed, else nearly as long.
    pub long_ones: u32,
    /// Of what is random.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Tally {
    began: Uptime,
    ended: Uptime,
    keys: Vec<Arc<Key>>,
    /// How many sections each keeper had.
    pub by_keeper: Vec<u64>,
    /// What acquires and releases said, and how often.
    pub said: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
struct Key {
    name: String,
    sections: Mutex<Vec<Section>>,
    /// Read when a section begins, written when it ends: two at once lose an update.
    counter: AtomicU64,
    written: AtomicU64,
}

impl Contest {
    /// Lets all contend for so long.
    ///
    /// # Panics
    /// An acquire or a release hangs.
    pub async fn run(&self, keepers: &[Keeper], length: Duration) -> Tally {
        let (began, ends) = (SystemClock.uptime(), Instant::now() + length);
        let said = Arc::new(Mutex::new(BTreeMap::new()));
        let keys: Vec<_> =
            self.names.iter().map(|name| Arc::new(Key { name: name.clone(), ..Key::default() })).collect();
        let by_keeper: Vec<_> = keepers.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
        let mut tasks = Vec::new();
        for ((number, keeper), sections) in keepers.iter().enumerate().zip(&by_keeper) {
            for (at, key) in keys.iter().enumerate() {
                let seed = self.seed.wrapping_add((number * 100 + at) as u64);
                let mut contender = Contender {
                    keeper: keeper.clone(),
                    key: key.clone(),
                    sections: sections.clone(),
                    contest: self.clone(),
                    said: said.clone(),
                    random: StdRng::seed_from_u64(seed),
                };
                tasks.push(tokio::spawn(async move {
                    while Instant::now() < ends {
                        contender.turn().await;
                    }
                }));
            }
        }
        for task in tasks {
            task.await.expect("a contender failed");
        }
        let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let by_keeper = by_keeper.iter().map(|sections| sections.load(Ordering::SeqCst)).collect();
        Tally { began, ended: SystemClock.uptime(), keys, by_keeper, said }
    }
}

struct Contender {
    keeper: Keeper,
    key: Arc<Key>,
    /// Of its keeper.
    sections: Arc<AtomicU64>,
    contest: Contest,
    said: Arc<Mutex<BTreeMap<String, u64>>>,
    random: StdRng,
}

impl Contender {
    async fn turn(&mut self) {
        let lock = self.keeper.lock(&self.key.name).expect("a name");
        let lock = lock.lease(self.contest.lease).wait(WAIT);
        let lock = if self.contest.renewed { lock } else { lock.no_renewal() };
        match tokio::time::timeout(WAIT + HANGS, lock.acquire()).await.expect("an acquire hangs") {
            Err(error) => self.failed("acquire", &error).await,
            Ok(acquired) => match acquired.or_busy() {
                Err(_) => self.say("acquire: busy".to_owned()),
                Ok(guard) => self.inside(guard).await,
            },
        }
    }

    async fn inside(&mut self, guard: LockGuard) {
        let entered = SystemClock.uptime();
        let fence = guard.fence().expect("a store that fences");
        let seen = self.key.counter.load(Ordering::SeqCst);
        tokio::time::sleep(self.stay()).await;
        let left = SystemClock.uptime();
        if guard.remaining() > LEFT {
            self.key.counter.store(seen + 1, Ordering::SeqCst);
            self.key.written.fetch_add(1, Ordering::SeqCst);
        }
        // It was valid at all times before this one.
        if guard.is_valid() {
            self.sections.fetch_add(1, Ordering::SeqCst);
            self.key.sections.lock().unwrap_or_else(PoisonError::into_inner).push(Section {
                entered,
                left,
                fence,
            });
        } else {
            self.say(format!("lost inside: {:?}", guard.loss()));
        }
        match tokio::time::timeout(HANGS, guard.release()).await.expect("a release hangs") {
            Ok(Released::Released) => {}
            Ok(other) => self.say(format!("release: {other:?}")),
            Err(error) => self.failed("release", &error).await,
        }
    }

    fn stay(&mut self) -> Duration {
        let lease = self.contest.lease;
        match self.random.random_ratio(1, self.contest.long_ones) {
            true if self.contest.renewed => lease * 3 / 2,
            true => lease * 9 / 10,
            false => Duration::from_micros(self.random.random_range(0..4_000)),
        }
    }

    async fn failed(&self, operation: &str, error: &Error) {
        self.say(format!("{operation}: {}", error.kind()));
        tokio::time::sleep(AGAIN).await;
    }

    fn say(&self, words: String) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner).entry(words).or_default() += 1;
    }
}

impl Tally {
    /// Checks every key's history: no two valid guards at once, fences that grow, no lost update.
    ///
    /// # Errors
    /// What was violated, and of which key.
    pub fn check(&self) -> Result<(), String> {
        for key in &self.keys {
            let of_key = |error| format!("{}: {error}", key.name);
            history::in_order(key.sections()).map_err(of_key)?;
            let (counted, written) = (key.counter.load(Ordering::SeqCst), key.written.load(Ordering::SeqCst));
            if counted != written {
                return Err(of_key(format!("{written} updates, but the counter says {counted}")));
            }
        }
        Ok(())
    }

    /// How many sections there were of each key.
    pub fn counts(&self) -> Vec<usize> {
        self.keys.iter().map(|key| key.sections().len()).collect()
    }

    /// The longest time without the end of a section, of any key.
    pub fn longest_gap(&self) -> Duration {
        let of_key = |key: &Arc<Key>| {
            let mut ends: Vec<Uptime> = key.sections().iter().map(|section| section.left).collect();
            ends.extend([self.began, self.ended]);
            ends.sort_unstable();
            ends.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or_default()
        };
        self.keys.iter().map(of_key).max().unwrap_or_default()
    }
}

impl Key {
    fn sections(&self) -> Vec<Section> {
        self.sections.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
