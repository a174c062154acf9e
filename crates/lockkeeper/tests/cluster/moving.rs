//! Slots that move back and forth under load.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lockkeeper::redis::slot_of;
use lockkeeper::{Begun, Keeper, Stored, fingerprint};
use lockkeeper_faults::{ClusterServers, Reply};
use lockkeeper_testkit::history::{Section, Unprotected, check, section};
use parking_lot::Mutex;

use crate::common::{hold, keeper, slot, three};
use crate::support::{PATIENT, calls, secs};

const NAMES: usize = 12;
const SLOTS: usize = 50;
const ROUNDS: usize = 2;

/// What the workers of one name did.
#[derive(Default)]
struct Story {
    counter: Unprotected,
    sections: Mutex<Vec<Section>>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_no_lock_is_held_twice_no_limit_is_miscounted_and_no_call_fails() {
    let Some(cluster) = three() else { return };
    let (one, other) = (keeper(&cluster).await, keeper(&cluster).await);
    let stories: Arc<Vec<Story>> = Arc::new((0..NAMES).map(|_| Story::default()).collect());
    let mut held = Vec::new();
    for number in 0..SLOTS {
        held.push(hold(&one, &format!("held-{number}")).await);
    }
    let (stop, checks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let limiter = one.limiter("api", "1000000/d fixed-window").unwrap().decide_within(PATIENT).exact();
    assert!(limiter.check("u").await.unwrap().is_allowed());
    let mut workers = Vec::new();
    for worker in 0..6 {
        let keeper = if worker % 2 == 0 { one.clone() } else { other.clone() };
        let (stories, stop) = (stories.clone(), stop.clone());
        workers.push(tokio::spawn(lock_again_and_again(keeper, stories, stop, worker)));
    }
    workers.push(tokio::spawn({
        let (stop, checks, limiter) = (stop.clone(), checks.clone(), limiter.clone());
        async move {
            while !stop.load(Ordering::Relaxed) {
                assert!(limiter.check("u").await.unwrap().is_allowed());
                checks.fetch_add(1, Ordering::Relaxed);
            }
        }
    }));
    workers.push(tokio::spawn(run_once_each(other.clone(), stop.clone())));

    let cluster = Arc::new(cluster);
    let moved = tokio::task::spawn_blocking({
        let cluster = cluster.clone();
        move || move_back_and_forth(&cluster)
    });
    moved.await.unwrap();
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    for guard in held {
        assert!(guard.is_valid(), "{}: {:?}", guard.key(), guard.loss());
        guard.release().await.unwrap();
    }
    let mut all = 0;
    for story in stories.iter() {
        let sections = std::mem::take(&mut *story.sections.lock());
        all += sections.len();
        check(sections, story.counter.get()).unwrap();
    }
    let used = 1_000_000 - limiter.peek("u", 1).await.unwrap().remaining();
    assert_eq!(used, checks.load(Ordering::Relaxed) + 1);
    eprintln!("{all} sections, {used} checks");
    assert!(all > 100 && used > 100, "{all} sections, {used} checks");
}

async fn lock_again_and_again(
    keeper: Keeper,
    stories: Arc<Vec<Story>>,
    stop: Arc<AtomicBool>,
    worker: usize,
) {
    let mut number = worker;
    while !stop.load(Ordering::Relaxed) {
        number = (number + 5) % NAMES;
        let lock = keeper.lock(format!("busy-{number}")).unwrap().lease(secs(20)).wait(secs(30));
        let guard = lock.acquire().await.unwrap().or_busy().unwrap();
        let seen = section(&guard, &stories[number].counter).await;
        stories[number].sections.lock().push(seen);
        guard.release().await.unwrap();
    }
}

/// Each key is run by exactly one attempt.
async fn run_once_each(keeper: Keeper, stop: Arc<AtomicBool>) {
    let once = keeper.once("pay").unwrap();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("k{}", number / 2 % 200);
        let is_first = number / 2 < 200 && number % 2 == 0;
        match once.begin(&key, fingerprint::of_bytes(&key)).await.unwrap() {
            Begun::Claimed(attempt) if is_first => {
                _ = attempt.complete(Stored::whole(key.as_bytes()).unwrap()).await.unwrap();
            }
            Begun::Completed(done) if !is_first => assert_eq!(done.stored.bytes(), key.as_bytes()),
            other => panic!("{key}: {other:?}"),
        }
    }
}

/// The slots of what is kept, each to the next server and on, and back.
fn move_back_and_forth(cluster: &ClusterServers) {
    let mut homes = BTreeMap::new();
    for (number, node) in cluster.nodes().iter().enumerate() {
        let keys = node.command(&["KEYS", "*"]).unwrap();
        let slots = keys.as_array().unwrap().iter().filter_map(Reply::as_bytes).map(slot_of);
        let slots: BTreeSet<u16> = slots.collect();
        homes.extend(slots.into_iter().map(|slot| (slot, number)));
    }
    let homes: Vec<(u16, usize)> = homes.into_iter().collect();
    let every = (homes.len() / SLOTS).max(1);
    let chosen: Vec<_> = homes.into_iter().step_by(every).take(SLOTS).collect();
    assert!(chosen.len() >= SLOTS / 2, "{}", chosen.len());
    for _ in 0..ROUNDS {
        for step in [1, 0] {
            for (slot, home) in &chosen {
                cluster.move_slot(*slot, (home + step) % 3).unwrap();
            }
        }
    }
}

/// Whose slots do not move is not bothered.
#[tokio::test]
async fn slots_that_move_cost_other_locks_no_renewals() {
    let Some(cluster) = three() else { return };
    let keeper = keeper(&cluster).await;
    let mut held = Vec::new();
    for number in 0..50 {
        let lock = keeper.lock(format!("still-{number}")).unwrap().lease(secs(60));
        held.push(lock.acquire().await.unwrap().or_busy().unwrap());
    }
    let scripts = || cluster.nodes().iter().map(|node| calls(node, &["evalsha", "eval"])).sum::<u64>();
    // Each server has its connections.
    tokio::time::sleep(secs(2)).await;
    let before = scripts();
    let mut own = 0;
    for number in 0..10 {
        let name = format!("moving-{number}");
        for _ in 0..2 {
            hold(&keeper, &name).await.release().await.unwrap();
            own += 2;
            let to = (cluster.owner_of(slot(&name)).unwrap() + 1) % 3;
            cluster.move_slot(slot(&name), to).unwrap();
        }
    }
    let more = scripts() - before;
    assert!(more >= own && more < own + 40, "{more} scripts, {own} for what moved");
    assert!(held.iter().all(lockkeeper::LockGuard::is_valid));
}
