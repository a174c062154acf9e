//! Who is the primary of a service, as far as its Sentinels say.
//!
//! A thread of its own listens to all of them (see `listen.rs`), so that a runtime of the application that is blocked or
//! gone makes nobody deaf. What they say is weighed in `votes.rs`.

mod ask;
mod listen;
mod reach;
mod scout;
mod survey;
mod votes;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use self::scout::Scout;
use self::votes::{Say, Votes};
use crate::clock::ServerClock;
use crate::config::RedisConfig;
use crate::connect::{Connector, LeadsTo};
use crate::error::Failure;
use crate::url::{Address, Sentinels, Target};
use crate::wake::Watched;

pub(crate) use self::listen::EVENTS;
pub use self::survey::SentinelView;

/// Each Sentinel is asked so often; what it tells by itself comes sooner.
pub(crate) const POLL: Duration = Duration::from_secs(1);
/// The longest time for one question to a Sentinel, or for connecting to it.
pub(crate) const ASK_LIMIT: Duration = Duration::from_secs(1);
/// Questions to one Sentinel are at least so far apart.
pub(crate) const ASK_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause before a Sentinel that is away is tried again. The first is [`ASK_PAUSE`]; it doubles, with jitter.
pub(crate) const AWAY_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause before the primary is tried again.
pub(crate) const SEEK_PAUSE: Duration = Duration::from_millis(200);

/// Looks out for the primary of one service; shared by the lanes of a node.
pub(crate) struct Lookout {
    shared: Arc<Shared>,
    /// The thread that listens has started.
    started: Mutex<bool>,
    /// Ends the thread with this.
    ends: watch::Sender<()>,
    /// Made again for each survey.
    config: RedisConfig,
    sentinels: Sentinels,
    clock: Arc<ServerClock>,
}

/// What the listeners and those who connect have in common.
pub(crate) struct Shared {
    service: String,
    votes: Mutex<Votes>,
    known: watch::Sender<Known>,
    /// The term of `known`, to be read without a lock.
    term: AtomicU64,
    /// Changes when somebody wants everybody asked at once.
    asked: watch::Sender<u64>,
    /// The host and port of the server that a Sentinel asked last to become the primary.
    selected: watch::Sender<Option<(String, u16)>>,
    watched: Arc<Watched>,
}

/// What is known of the primary.
#[derive(Clone, Debug, Default)]
struct Known {
    primary: Option<Primary>,
    /// Why none is known, once every Sentinel was asked.
    trouble: Option<Failure>,
}

impl Known {
    fn term(&self) -> Option<u64> {
        self.primary.as_ref().map(|primary| primary.term)
    }
}

/// A primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Primary {
    pub(crate) at: Address,
    /// Grows with every failover.
    pub(crate) term: u64,
}

impl Lookout {
    /// Listens from its first use on.
    pub(crate) fn new(
        config: &RedisConfig,
        sentinels: Sentinels,
        watched: Arc<Watched>,
        clock: Arc<ServerClock>,
    ) -> Arc<Self> {
        let count = sentinels.addresses.len();
        let shared = Arc::new(Shared {
            service: sentinels.service.clone(),
            votes: Mutex::new(Votes::new(count)),
            known: watch::Sender::default(),
            term: AtomicU64::new(0),
            asked: watch::Sender::default(),
            selected: watch::Sender::default(),
            watched,
        });
        Arc::new(Self {
            shared,
            started: Mutex::default(),
            ends: watch::Sender::default(),
            config: config.clone(),
            sentinels,
            clock,
        })
    }

    pub(crate) fn service(&self) -> &str {
        &self.shared.service
    }

    /// The primary; waits until the Sentinels have been asked.
    ///
    /// # Errors
    /// All were asked, and none named one.
    pub(crate) async fn primary(&self) -> Result<Primary, Failure> {
        self.start()?;
        let mut known = self.shared.known.subscribe();
        let found = known.wait_for(|known| known.primary.is_some() || known.trouble.is_some()).await;
        let known = found.map(|known| known.clone()).unwrap_or_default();
        let nobody = || Failure::unreachable("nobody asks the Sentinels any more");
        known.primary.ok_or_else(|| known.trouble.unwrap_or_else(nobody))
    }

    /// The primary's number; 0 before the first is known.
    pub(crate) fn term(&self) -> u64 {
        self.shared.term.load(Ordering::Acquire)
    }

    /// Waits until another server is the primary than that of `term`.
    pub(crate) async fn left(&self, term: u64) {
        let mut known = self.shared.known.subscribe();
        let is_left = |known: &Known| known.term().is_some_and(|now| now != term);
        if known.wait_for(is_left).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Changes with the term.
    pub(crate) fn terms(&self) -> Terms {
        Terms { known: self.shared.known.subscribe(), last: self.term() }
    }

    /// Has every Sentinel asked at once: the server that was found is no primary, or does not answer.
    pub(crate) fn ask_now(&self) {
        self.shared.asked.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// A connection to the primary of `term` stands.
    pub(crate) fn confirm(&self, term: u64) {
        self.shared.votes.lock().confirm(term);
    }

    /// The server of `term` could not be reached, or is no primary.
    pub(crate) fn doubt(&self, term: u64) {
        self.shared.votes.lock().doubt(term);
        self.ask_now();
    }

    fn scout(&self) -> Scout {
        let tls = self.sentinels.addresses.iter().any(Address::is_tls);
        let connector = Connector {
            config: self.config.clone(),
            // It is told where to.
            leads_to: LeadsTo::At(Address::Tcp { host: String::new(), port: 0, tls }),
            clock: self.clock.clone(),
            watched: Arc::default(),
            connected: Mutex::default(),
            deaf: Arc::default(),
            replaced: None,
        };
        Scout { connector, tls, shared: self.shared.clone() }
    }

    /// Starts the thread that listens, unless it runs. One that could not be started is tried again the next time.
    fn start(&self) -> Result<(), Failure> {
        let mut started = self.started.lock();
        if !*started {
            let failed =
                |error| Failure::unreachable(format!("the thread that listens did not start: {error}"));
            self.spawn().map_err(failed)?;
            *started = true;
        }
        Ok(())
    }

    fn spawn(&self) -> std::io::Result<()> {
        let one = |at| connector(&self.config, &self.sentinels, at, &self.clock);
        let connectors = self.sentinels.addresses.iter().map(one).collect();
        let (scout, shared, ends) = (self.scout(), self.shared.clone(), self.ends.subscribe());
        let work = listen::all(connectors, scout, shared, ends);
        crate::own_thread::start("lockkeeper-sentinels", work).map(drop)
    }
}

impl Shared {
    /// A server that was asked to become the primary says that it is.
    fn promoted(&self, at: Address) {
        let mut votes = self.votes.lock();
        if let Some(primary) = votes.promoted(at) {
            self.tell(primary);
        }
        drop(votes);
        self.asked.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn tell(&self, primary: Primary) {
        let before = self.term.swap(primary.term, Ordering::AcqRel);
        let at = primary.at.clone();
        self.known.send_replace(Known { primary: Some(primary), trouble: None });
        if before > 0 {
            tracing::warn!(service = %self.service, address = %at, "another server is the primary");
            self.watched.everything_changed();
        }
    }

    /// Takes what one Sentinel says, and tells everybody if that changes who the primary is.
    fn hear(&self, from: usize, say: Say) {
        let mut votes = self.votes.lock();
        votes.hear(from, say);
        let moved = votes.decide(Instant::now());
        let trouble = votes.trouble(&self.service);
        // Told while the votes are locked: what two Sentinels say at once is told in order.
        match moved {
            Some(primary) => self.tell(primary),
            None if self.known.borrow().primary.is_none() => {
                self.known.send_if_modified(|known| {
                    let is_news = known.trouble.is_some() || trouble.is_some();
                    known.trouble = trouble;
                    is_news
                });
            }
            None => {}
        }
    }
}

/// What [`Lookout::terms`] gives.
pub(crate) struct Terms {
    known: watch::Receiver<Known>,
    last: u64,
}

impl Terms {
    /// Waits for the next term after the first, or after the one that it told of.
    pub(crate) async fn changed(&mut self) {
        let last = self.last;
        let is_next = |known: &Known| known.term().is_some_and(|term| term > last.max(1));
        let next = self.known.wait_for(is_next).await.ok().and_then(|known| known.term());
        match next {
            Some(term) => self.last = term,
            None => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Lookout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lookout({})", self.shared.service)
    }
}

/// Connects to one Sentinel, as the user for Sentinels.
fn connector(
    config: &RedisConfig,
    sentinels: &Sentinels,
    at: &Address,
    clock: &Arc<ServerClock>,
) -> Connector {
    let target = Target {
        places: crate::url::Places::One(at.clone()),
        database: 0,
        user: sentinels.user.clone(),
        password: sentinels.password.clone(),
    };
    let config = RedisConfig { target, credentials: None, ..config.clone() };
    let (watched, connected) = (Arc::default(), Mutex::default());
    Connector {
        config,
        leads_to: LeadsTo::At(at.clone()),
        clock: clock.clone(),
        watched,
        connected,
        deaf: Arc::default(),
        replaced: None,
    }
}
