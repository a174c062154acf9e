//! The keeper's own thread: renewals, compensation and releases that nobody waits for.
//!
//! It has a small runtime of its own, so that an application that blocks its runtime cannot starve it. One timeline
//! holds every acquisition at the moment when something is due; taking and releasing a lock wake the thread only when
//! that moment is earlier than the one it sleeps until.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use lockkeeper_core::{Clock, Error, ErrorKind, Uptime};
use lockkeeper_redis::{Lane, RedisStore, Terms};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::backend::Backend;
use crate::chore::Chore;
use crate::clock::sleep_until;
use crate::lock::{LossReason, Queue, Queues, RaceContext, Tended, race};

/// So many renewals are under way at once; more wait for their turn.
const MAX_TENDING: usize = 256;
/// So many give-backs and ends of attempts are kept; what comes beyond is left to its lease.
pub(crate) const MAX_CHORES: usize = 10_000;
/// While locks are held, the renewal connection is asked for a sign of life so often.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Held locks are looked after out of turn no more often than this, whatever happens to how many servers.
const VERIFY_PAUSE: Duration = Duration::from_millis(100);
/// When the last handle is dropped without `close`, what is due is worked off for this long.
const DRAIN_ON_DROP: Duration = Duration::from_secs(5);

/// The handle that keepers and held locks use.
#[derive(Clone)]
pub(crate) struct Background {
    shared: Arc<Shared>,
}

/// Where a lease stands on the timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot(Uptime, u64);

impl Slot {
    pub(crate) fn due(self) -> Uptime {
        self.0
    }
}

struct Shared {
    timeline: Mutex<Timeline>,
    wake: Notify,
    pending: watch::Sender<Pending>,
}

/// What [`Background::drained`] waits for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Pending {
    /// Of this thread. Bounded.
    chores: usize,
    /// Callers that are at something whose end counts.
    busy: usize,
}

#[derive(Default)]
struct Timeline {
    due: BTreeMap<(Uptime, u64), Tended>,
    chores: VecDeque<Chore>,
    /// Lines that want a racer.
    races: Vec<Arc<Queue>>,
    next_id: u64,
    /// The thread sleeps until then.
    wakes_at: Uptime,
    /// No new work; what is left ends by then.
    stop_by: Option<Uptime>,
    /// Nobody works any more.
    ended: bool,
}

/// What the work needs.
pub(crate) struct Context {
    pub(crate) backend: Backend,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) response_timeout: Duration,
    pub(crate) queues: Arc<Queues>,
}

/// Where the work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    #[default]
    OwnThread,
    CurrentRuntime,
}

impl Background {
    /// Starts the work.
    pub(crate) fn start(context: Context, place: Place) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            timeline: Mutex::default(),
            wake: Notify::new(),
            pending: watch::Sender::default(),
        });
        let work = Worker::new(shared.clone(), context).run();
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Unsupported, "connect", "the keeper's thread did not start")
                .with_source(error)
        };
        match place {
            Place::CurrentRuntime => drop(tokio::spawn(work)),
            Place::OwnThread => {
                lockkeeper_redis::own_thread::start("lockkeeper", work).map_err(failed)?;
            }
        }
        Ok(Self { shared })
    }

    /// Has `what` tended at `due`; `None` when the work has been ended.
    pub(crate) fn schedule(&self, due: Uptime, what: Tended) -> Option<Slot> {
        let mut timeline = self.shared.timeline.lock();
        if timeline.stop_by.is_some() {
            return None;
        }
        let slot = Slot(due, timeline.next_id);
        timeline.next_id += 1;
        timeline.due.insert((slot.0, slot.1), what);
        let is_next = due < timeline.wakes_at;
        drop(timeline);
        if is_next {
            self.shared.wake.notify_one();
        }
        Some(slot)
    }

    pub(crate) fn unschedule(&self, slot: Slot) {
        self.shared.timeline.lock().due.remove(&(slot.0, slot.1));
    }

    /// Races for those who stand in `queue`; false where nobody works any more.
    pub(crate) fn race(&self, queue: Arc<Queue>) -> bool {
        let mut timeline = self.shared.timeline.lock();
        if timeline.stop_by.is_some() {
            return false;
        }
        timeline.races.push(queue);
        drop(timeline);
        self.shared.wake.notify_one();
        true
    }

    /// Gives something back, or ends an attempt; never blocks. What finds no place is told so.
    pub(crate) fn start_chore(&self, what: Chore) {
        let mut timeline = self.shared.timeline.lock();
        if timeline.ended || self.shared.pending.borrow().chores >= MAX_CHORES {
            let why = if timeline.ended { "the keeper is closed" } else { "too much is being given back" };
            // It may own an attempt, whose end takes it off the timeline.
            drop(timeline);
            what.refused(why);
            return;
        }
        timeline.chores.push_back(what);
        self.shared.pending.send_modify(|pending| pending.chores += 1);
        drop(timeline);
        self.shared.wake.notify_one();
    }

    /// The caller is at something that [`drained`](Self::drained) waits for, until what it gets is dropped.
    pub(crate) fn busy(&self) -> Busy {
        self.shared.pending.send_modify(|pending| pending.busy += 1);
        Busy(self.shared.clone())
    }

    /// How much is being given back, begun or ended.
    pub(crate) fn pending(&self) -> usize {
        let pending = self.shared.pending.borrow();
        pending.chores + pending.busy
    }

    /// Waits until nothing is.
    pub(crate) async fn drained(&self) {
        let _ = self.shared.pending.subscribe().wait_for(|pending| *pending == Pending::default()).await;
    }

    /// Nobody is tended any more, and everybody is told. Returns how many held something until now.
    pub(crate) fn lose_all(&self) -> usize {
        let all = std::mem::take(&mut self.shared.timeline.lock().due);
        all.values().filter(|what| what.lose(LossReason::KeeperClosed)).count()
    }

    /// Ends the work when nothing is left to give back, and at the latest after `limit`.
    pub(crate) fn stop(&self, now: Uptime, limit: Duration) {
        self.shared.timeline.lock().stop_by.get_or_insert(now.after(limit));
        self.shared.wake.notify_one();
    }

    /// As [`stop`](Self::stop), for a handle that was dropped.
    pub(crate) fn stop_when_drained(&self, now: Uptime) {
        self.stop(now, DRAIN_ON_DROP);
    }
}

/// Somebody is at something whose end counts.
pub(crate) struct Busy(Arc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.pending.send_modify(|pending| pending.busy -= 1);
    }
}

/// Which held locks are looked after at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whom {
    /// Those whose primary is another by now, and may not know them.
    OfAnEarlierTerm,
    /// A connection was replaced: the server may have been restarted empty.
    All,
}

/// The work itself.
struct Worker {
    shared: Arc<Shared>,
    context: Context,
    /// Each gives what it tends.
    tending: FuturesUnordered<BoxFuture<'static, usize>>,
    /// What is tended at the moment.
    tended: HashSet<usize>,
    chores: FuturesUnordered<BoxFuture<'static, ()>>,
    beating: FuturesUnordered<BoxFuture<'static, ()>>,
    racing: FuturesUnordered<BoxFuture<'static, ()>>,
    next_beat: Uptime,
    /// These are to be looked after at this moment.
    verifies: Option<(Uptime, Whom)>,
    /// They are not again before this.
    next_verification: Uptime,
}

impl Worker {
    fn new(shared: Arc<Shared>, context: Context) -> Self {
        let (tending, tended, chores, beating, racing) = <_>::default();
        let (next_beat, next_verification, verifies) = (Uptime::default(), Uptime::default(), None);
        Self {
            shared,
            context,
            tending,
            tended,
            chores,
            beating,
            racing,
            next_beat,
            verifies,
            next_verification,
        }
    }

    async fn run(mut self) {
        let mut reconnections = self.renewal_store().and_then(|store| store.reconnections());
        let mut terms = self.renewal_store().and_then(|store| store.terms());
        loop {
            self.start_due();
            let Some(wakes_at) = self.plan() else { return };
            let shared = self.shared.clone();
            tokio::select! {
                () = shared.wake.notified() => {}
                () = sleep_until(&*self.context.clock, wakes_at), if wakes_at < Uptime::MAX => {}
                Some(what) = self.tending.next() => { self.tended.remove(&what); }
                Some(()) = self.chores.next() => shared.pending.send_modify(|pending| pending.chores -= 1),
                Some(()) = self.beating.next() => {}
                Some(()) = self.racing.next() => {}
                () = reconnected(&mut reconnections) => self.verify_soon(Whom::All),
                () = moved(terms.as_mut()) => self.verify_soon(Whom::OfAnEarlierTerm),
            }
        }
    }

    /// Starts whatever is due, within the bounds.
    fn start_due(&mut self) {
        let now = self.context.clock.uptime();
        if let Some((_, whom)) = self.verifies.take_if(|(at, _)| *at <= now) {
            self.verify(whom, now);
        }
        while self.tending.len() < MAX_TENDING {
            let Some(what) = self.next_due(now) else { break };
            if let Some(work) = what.tend() {
                let what = what.address();
                self.tended.insert(what);
                self.tending.push(Box::pin(work.map(move |()| what)));
            }
        }
        let chores = std::mem::take(&mut self.shared.timeline.lock().chores);
        for what in chores {
            let Context { backend, clock, response_timeout, .. } = &self.context;
            self.chores.push(Box::pin(what.run(backend.clone(), clock.clone(), *response_timeout)));
        }
        let races = std::mem::take(&mut self.shared.timeline.lock().races);
        for queue in races {
            self.racing.push(Box::pin(race(queue, self.race_context())));
        }
        self.beat(now);
    }

    fn race_context(&self) -> RaceContext {
        let Context { backend, clock, response_timeout, queues } = &self.context;
        RaceContext {
            backend: backend.clone(),
            clock: clock.clone(),
            response_timeout: *response_timeout,
            queues: queues.clone(),
        }
    }

    fn next_due(&self, now: Uptime) -> Option<Tended> {
        let mut timeline = self.shared.timeline.lock();
        let entry = timeline.due.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    /// While locks are held, finds out every second whether the renewal connection still answers; a dead one is
    /// replaced before a renewal needs it.
    fn beat(&mut self, now: Uptime) {
        if now < self.next_beat || self.shared.timeline.lock().due.is_empty() {
            return;
        }
        self.next_beat = now.after(HEARTBEAT);
        if let Some(store) = self.renewal_store().filter(|_| self.beating.is_empty()) {
            let within = self.context.response_timeout;
            self.beating.push(Box::pin(async move {
                if let Err(error) = store.heartbeat(within).await {
                    tracing::debug!(%error, "no sign of life on the renewal connection");
                }
            }));
        }
    }

    /// When to wake next; `None` when the work has ended.
    fn plan(&self) -> Option<Uptime> {
        let mut timeline = self.shared.timeline.lock();
        let beats = matches!(self.context.backend, Backend::Redis(_)) && !timeline.due.is_empty();
        let next = timeline.due.first_key_value().map_or(Uptime::MAX, |((due, _), _)| *due);
        let mut wakes_at = if beats { next.min(self.next_beat) } else { next };
        if self.tending.len() >= MAX_TENDING {
            // Whatever else is due waits for a place, and a place that becomes free wakes us.
            wakes_at = Uptime::MAX;
        }
        wakes_at = wakes_at.min(self.verifies.map_or(Uptime::MAX, |(at, _)| at));
        if let Some(by) = timeline.stop_by {
            let is_drained = timeline.chores.is_empty() && self.chores.is_empty() && self.tending.is_empty();
            if is_drained || self.context.clock.uptime() >= by {
                return None;
            }
            wakes_at = wakes_at.min(by);
        }
        timeline.wakes_at = wakes_at;
        Some(wakes_at)
    }

    /// Looks after them at once, or soon if that was done a moment ago.
    fn verify_soon(&mut self, whom: Whom) {
        let at = self.context.clock.uptime().max(self.next_verification);
        let (_, planned) = self.verifies.get_or_insert((at, whom));
        *planned = (*planned).max(whom);
    }

    /// What is tended at the moment is not tended twice at once: it is told by the new connection, or ends with an error
    /// and is tried again.
    fn verify(&mut self, whom: Whom, now: Uptime) {
        self.next_verification = now.after(VERIFY_PAUSE);
        let mut all: Vec<Tended> = self.shared.timeline.lock().due.values().cloned().collect();
        // Not while the timeline is locked: the last owner of one may go away here.
        match whom {
            Whom::All => all.iter().for_each(Tended::doubt),
            Whom::OfAnEarlierTerm => all.retain(Tended::is_of_an_earlier_term),
        }
        let wanted: HashSet<usize> = all.iter().map(Tended::address).collect();
        let mut timeline = self.shared.timeline.lock();
        let due = std::mem::take(&mut timeline.due);
        let at = |due: Uptime, what: &Tended| {
            let what = what.address();
            if wanted.contains(&what) && !self.tended.contains(&what) { Uptime::default() } else { due }
        };
        timeline.due = due.into_iter().map(|((due, id), what)| ((at(due, &what), id), what)).collect();
    }

    fn renewal_store(&self) -> Option<RedisStore> {
        match &self.context.backend {
            Backend::Redis(lanes) => Some(lanes.on(Lane::Renewal).clone()),
            _ => None,
        }
    }
}

impl Drop for Worker {
    /// However it ends (closed, its runtime gone, a panic): nobody renews or gives back any more, and everybody is told.
    fn drop(&mut self) {
        let mut timeline = self.shared.timeline.lock();
        timeline.ended = true;
        timeline.stop_by.get_or_insert(Uptime::default());
        let (left, races) = (std::mem::take(&mut timeline.due), std::mem::take(&mut timeline.races));
        let undone = std::mem::take(&mut timeline.chores);
        drop(timeline);
        // What is left may own an attempt, whose end takes it off the timeline.
        drop(undone);
        self.shared.pending.send_modify(|pending| pending.chores = 0);
        left.values().for_each(|what| _ = what.lose(LossReason::KeeperClosed));
        races.iter().for_each(|queue| self.context.queues.dissolve(queue));
    }
}

/// Waits until another server is the primary.
async fn moved(terms: Option<&mut Terms>) {
    match terms {
        Some(terms) => terms.changed().await,
        None => std::future::pending().await,
    }
}

/// Waits for the renewal connection to be *re*placed; the first connection does not count.
async fn reconnected(reconnections: &mut Option<watch::Receiver<u64>>) {
    while let Some(changes) = reconnections {
        match changes.changed().await {
            Ok(()) if *changes.borrow_and_update() > 1 => return,
            Ok(()) => {}
            Err(_) => *reconnections = None,
        }
    }
    std::future::pending::<()>().await;
}
