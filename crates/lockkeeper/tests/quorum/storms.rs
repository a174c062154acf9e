//! Keepers contend while one server after another fails in one way or another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use lockkeeper::redis::NodeStanding;
use lockkeeper_testkit::contest::{Contest, Tally};
use lockkeeper_testkit::runs;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::fences::plant;
use crate::support::{ms, secs};
use crate::views::Views;

const NAMES: [&str; 2] = ["one", "two"];
const LENGTH: Duration = secs(12);
/// A server that was restarted votes again after max_lease, by an uptime that it says in whole seconds.
const ABSTAINS: Duration = ms(3_500);
/// So soon after a fault has ended every keeper sees the server again.
const SEEN_AGAIN: Duration = secs(5);
/// The longest time without a section. Longer than the longest section, and than what is left of a lease that nobody gave back.
const PROGRESS: Duration = secs(4);

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Paused,
    BlackHoled,
    Slowed,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_one_server_after_another_fails_nobody_holds_together_and_all_get_their_turn() {
    let seed = runs::seed();
    eprintln!("LOCKKEEPER_SEED={seed}");
    let Some(views) = Views::start(4, "max_lease=2s").await else { return };
    let names = NAMES.map(str::to_owned).to_vec();
    let contest = Contest { names, lease: ms(800), renewed: true, long_ones: 60, seed };
    let (views, ends) = (Arc::new(views), Arc::new(AtomicBool::new(false)));
    let storm = thread::spawn({
        let (views, ends) = (views.clone(), ends.clone());
        move || Storm { views: &views, random: StdRng::seed_from_u64(seed), forgetful: None }.rage(&ends)
    });
    let tally = contest.run(&views.keepers, LENGTH).await;
    ends.store(true, Ordering::Release);
    let faults = storm.join().unwrap();
    let gap = tally.longest_gap();
    eprintln!("{faults} faults, sections {:?}, longest gap {gap:?}, {:?}", tally.counts(), tally.said);
    tally.check().unwrap();
    all_took_part(&tally);
    assert!(gap < PROGRESS, "nobody got in for {gap:?}");
    assert!(faults >= 8, "{faults} faults");
    assert!(tally.counts().iter().all(|count| *count >= 50), "{:?}", tally.counts());
    for name in NAMES {
        let nowhere = async || views.holding(name) == 0;
        lockkeeper_testkit::wait::until("no server keeps it", secs(5), nowhere).await;
    }
}

/// Nobody was left out, as where a keeper's servers were those of another majority.
fn all_took_part(tally: &Tally) {
    assert!(tally.by_keeper.iter().all(|sections| *sections > 0), "{:?}", tally.by_keeper);
    assert!(!tally.said.keys().any(|said| said.contains("not supported here")), "{:?}", tally.said);
}

/// A majority is restarted while the lock is held: until nothing is left of what they may have forgotten, nobody gets in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_majorities_are_restarted_nobody_holds_together() {
    let seed = runs::seed();
    eprintln!("LOCKKEEPER_SEED={seed}");
    let Some(views) = Views::start(4, "max_lease=2s").await else { return };
    let contest = Contest {
        names: NAMES.map(str::to_owned).to_vec(),
        lease: ms(1_500),
        renewed: false,
        long_ones: 2,
        seed,
    };
    let (views, ends) = (Arc::new(views), Arc::new(AtomicBool::new(false)));
    let storm = thread::spawn({
        let (views, ends) = (views.clone(), ends.clone());
        move || restart_majorities(&views, StdRng::seed_from_u64(seed), &ends)
    });
    let tally = contest.run(&views.keepers, LENGTH).await;
    ends.store(true, Ordering::Release);
    storm.join().unwrap();
    let gap = tally.longest_gap();
    eprintln!("sections {:?}, longest gap {gap:?}, {:?}", tally.counts(), tally.said);
    tally.check().unwrap();
    all_took_part(&tally);
    assert!(gap < ABSTAINS + PROGRESS, "nobody got in for {gap:?}");
}

/// Three servers at once, and again as soon as there was time for some sections.
fn restart_majorities(views: &Views, mut random: StdRng, ends: &AtomicBool) {
    let mut servers: Vec<_> = views.servers.iter().collect();
    while !ends.load(Ordering::Acquire) {
        thread::sleep(ms(random.random_range(500..1_500)));
        servers.shuffle(&mut random);
        for server in &servers[..3] {
            server.kill().unwrap();
            server.restart().unwrap();
        }
        let until = Instant::now() + ABSTAINS;
        while Instant::now() < until && !ends.load(Ordering::Acquire) {
            thread::sleep(ms(20));
        }
    }
}

struct Storm<'a> {
    views: &'a Views,
    random: StdRng,
    /// No server is killed before this one votes again.
    forgetful: Option<(usize, Instant)>,
}

impl Storm<'_> {
    /// Until told, and never more than one server at a time, beside one that abstains. Returns the number of faults.
    fn rage(mut self, ends: &AtomicBool) -> usize {
        let (mut faults, mut next) = (0, Vec::new());
        while !ends.load(Ordering::Acquire) {
            if next.is_empty() {
                next = vec![Fault::Killed, Fault::Paused, Fault::BlackHoled, Fault::Slowed];
                next.shuffle(&mut self.random);
            }
            let Some(fault) = next.pop() else { continue };
            self.clocks_differ();
            let node = self.random.random_range(0..self.views.servers.len());
            let node = match (fault, self.forgetful) {
                (Fault::Killed, Some((same, until))) if Instant::now() < until => same,
                _ => node,
            };
            let length = ms(self.random.random_range(50..900));
            self.strike(fault, node, length);
            self.seen_again(fault, node);
            faults += 1;
        }
        faults
    }

    /// At three servers the last fences are as of clocks that are ahead, by less than a server abstains.
    fn clocks_differ(&mut self) {
        let mut servers: Vec<_> = self.views.servers.iter().collect();
        servers.shuffle(&mut self.random);
        for server in servers.into_iter().take(3) {
            let ahead = ms(self.random.random_range(1_000..1_500));
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let fence = u64::try_from((now + ahead).as_micros()).unwrap();
            NAMES.iter().for_each(|name| plant(server, name, fence));
        }
    }

    fn strike(&mut self, fault: Fault, node: usize, length: Duration) {
        let server = &self.views.servers[node];
        // Some keepers see it so, and some do not.
        let alike = self.random.random_range(1u8..16);
        let views = self.views.proxies.iter().enumerate();
        let proxies: Vec<_> =
            views.filter(|(at, _)| alike & (1 << at) != 0).map(|(_, proxies)| &proxies[node]).collect();
        match fault {
            Fault::Killed => server.kill().unwrap(),
            Fault::Paused => server.pause().unwrap(),
            Fault::BlackHoled => proxies.iter().for_each(|proxy| proxy.black_hole()),
            Fault::Slowed => {
                let delay = ms(self.random.random_range(5..150));
                proxies.iter().for_each(|proxy| proxy.slow(delay));
            }
        }
        thread::sleep(length);
        match fault {
            Fault::Killed => {
                server.restart().unwrap();
                self.forgetful = Some((node, Instant::now() + ABSTAINS));
            }
            Fault::Paused => server.resume().unwrap(),
            Fault::BlackHoled | Fault::Slowed => proxies.iter().for_each(|proxy| proxy.heal()),
        }
    }

    fn seen_again(&self, fault: Fault, node: usize) {
        let started = Instant::now();
        let is_there = |keeper: &lockkeeper::Keeper| {
            let known = keeper.quorum_store().unwrap().known();
            matches!(known[node].standing, NodeStanding::Votes | NodeStanding::Abstains(_))
        };
        while !self.views.keepers.iter().all(is_there) {
            assert!(started.elapsed() < SEEN_AGAIN, "{node} was {fault:?}, and is not seen again");
            thread::sleep(ms(5));
        }
    }
}
