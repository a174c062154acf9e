//! All buyers at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::buyer::{Buyer, Street};
use super::click::Clicks;
use super::notes::Notes;
use super::report::Report;
use crate::sale::Sku;

/// The largest crowd.
pub const MAX_BUYERS: u32 = 1_000_000;
/// The most connections at once.
pub const MAX_CONNECTIONS: usize = 4096;
/// How often progress is told, unless said otherwise.
pub const PROGRESS_PACE: Duration = Duration::from_millis(100);
/// So many come in before the next look at how far it is.
const AT_ONCE: u32 = 64;
const MIN_PACE: Duration = Duration::from_millis(1);

/// Who comes, and how they behave.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// Where the shop is; a buyer goes to the next one with each try. At least one.
    pub servers: Vec<SocketAddr>,
    /// What they want.
    pub sku: Sku,
    /// How many they are; at most [`MAX_BUYERS`]. All of them are there at once.
    pub buyers: u32,
    /// How many requests are under way at once; at most [`MAX_CONNECTIONS`].
    pub connections: usize,
    /// The share of buyers who click twice at the same time, 0 to 1.
    pub double_clicks: f64,
    /// The share of clicks after which the client closes before the answer comes, 0 to 1.
    pub lost_replies: f64,
    /// How often each of them tries.
    pub tries: u32,
    /// When everybody goes home.
    pub within: Duration,
    /// How often progress is told; at most a thousand times per second.
    pub pace: Duration,
    /// What chance begins with.
    pub seed: u64,
}

/// How far a rush is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How many buyers there are.
    pub buyers: u32,
    /// How many have their answer, or gave up.
    pub finished: u32,
    /// Clicks so far.
    pub requests: u64,
    /// Buyers who have a ticket.
    pub tickets: u64,
}

impl Crowd {
    /// Ten thousand buyers with some bad habits.
    pub fn new(servers: Vec<SocketAddr>, sku: Sku) -> Self {
        Self {
            servers,
            sku,
            buyers: 10_000,
            connections: 256,
            double_clicks: 0.1,
            lost_replies: 0.05,
            tries: 50,
            within: Duration::from_secs(60),
            pace: PROGRESS_PACE,
            seed: 0,
        }
    }

    /// What is out of bounds is brought into them.
    fn bounded(mut self) -> Self {
        self.buyers = self.buyers.min(MAX_BUYERS);
        self.pace = self.pace.max(MIN_PACE);
        self.connections = self.connections.clamp(1, MAX_CONNECTIONS);
        let share = |share: f64| if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        (self.double_clicks, self.lost_replies) = (share(self.double_clicks), share(self.lost_replies));
        self
    }
}

/// Lets the crowd in, and reports when everybody has an answer, has given up, or the time is up. `progress` is told how
/// far it is, at its pace and at the end. Without servers, nobody comes.
///
/// # Errors
/// None: what goes wrong is in the report.
///
/// # Cancel safety
/// Everybody goes home; what was bought is bought.
///
/// # Redis
/// None by itself.
pub async fn rush(crowd: Crowd, mut progress: impl FnMut(Progress)) -> Report {
    let crowd = crowd.bounded();
    let (buyers, within, pace) = (crowd.buyers, crowd.within, crowd.pace);
    let begun = Instant::now();
    let street = Arc::new(Street {
        clicks: Clicks::new(&crowd.sku, crowd.connections),
        connections: Semaphore::new(crowd.connections),
        notes: Notes::default(),
        crowd,
    });
    let mut all = JoinSet::new();
    if !street.crowd.servers.is_empty() {
        for number in 0..buyers {
            all.spawn(Buyer::new(number, street.crowd.seed).shop(street.clone()));
            if number % AT_ONCE == 0 {
                progress(street.notes.progress(buyers));
                tokio::task::yield_now().await;
            }
        }
    }
    let mut pace = interval(pace);
    pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let end = sleep(within);
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            one = all.join_next() => if one.is_none() { break },
            _ = pace.tick() => progress(street.notes.progress(buyers)),
        }
    }
    all.shutdown().await;
    progress(street.notes.progress(buyers));
    street.notes.report(buyers, begun.elapsed())
}
