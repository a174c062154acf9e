//! The racer of one line: tries for the lock on the server, is told of changes, and keeps everybody's time.
//!
//! * While somebody else has the lock it tries when the server tells of a change, shortly after the end of the
//!   holder's lease (expiry is told late or never), and at the latest after a second.
//! * While this keeper has it and passes it on, it asks every few milliseconds whether others wait, by the same
//!   request. Where the lock is gone, that takes it anew.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_core::lock::{KeeperName, Leave, Waiter};
use lockkeeper_core::{Clock, Error, ErrorKind, Keys, Uptime};
use lockkeeper_redis::Lane;

use super::line::{Obstacle, View};
use super::place::{Outcome, Place};
use super::{Queue, Queues};
use crate::backend::{AnyWatcher, Backend};
use crate::clock::sleep_until;
use crate::lock::attempt::{self, Tried};
use crate::lock::builder::Lock;
use crate::lock::degraded::is_away;
use crate::telemetry;

/// While the lock is passed on inside this process, the server is asked so often whether others wait.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// The longest time without a try, where the server tells of changes.
const BACKSTOP: Duration = Duration::from_secs(1);
/// Where it does not: the first pause; it doubles up to the backstop.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest time for taking a note of presence away; whoever comes meanwhile waits for it.
const LEAVE: Duration = Duration::from_millis(250);
/// A line in which nobody stands is kept for so long.
const LINGER: Duration = Duration::from_millis(100);
/// So many tries may follow each other at once because the server told of changes;
const BURST: u32 = 10;
/// more of them wait for so long each. A busy key does not become a storm of requests.
const PER_TRY: Duration = Duration::from_millis(2);

/// What a racer needs.
#[derive(Clone)]
pub(crate) struct RaceContext {
    pub(crate) backend: Backend,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) response_timeout: Duration,
    pub(crate) queues: Arc<Queues>,
}

/// Races for everybody in `queue` until nobody stands there any more.
pub(crate) async fn race(queue: Arc<Queue>, context: RaceContext) {
    let mut abandon = Abandon(Some((queue.clone(), context.queues.clone())));
    let mut racer = Racer::new(queue, context);
    racer.run().await;
    abandon.0 = None;
}

/// However the racer ends but by itself: nobody waits in vain.
struct Abandon(Option<(Arc<Queue>, Arc<Queues>)>);

impl Drop for Abandon {
    fn drop(&mut self) {
        if let Some((queue, queues)) = &self.0 {
            queues.dissolve(queue);
        }
    }
}

type Trying = Pin<Box<dyn Future<Output = (Arc<Place>, Result<(Tried, bool), Error>)> + Send>>;

struct Racer {
    queue: Arc<Queue>,
    context: RaceContext,
    watcher: Option<AnyWatcher>,
    trying: Option<Trying>,
    /// The next try, unless something happens before.
    due: Uptime,
    last_try: Uptime,
    pause: Duration,
    pace: Pace,
    /// The server told of a change while a try is under way.
    has_heard: bool,
    /// A note of presence may stand on the server.
    is_noted: bool,
    /// How many waited by the last try.
    asked_for: u32,
    empty_since: Option<Uptime>,
}

impl Racer {
    fn new(queue: Arc<Queue>, context: RaceContext) -> Self {
        let watcher = context.backend.watcher(&queue.keys);
        Self {
            watcher,
            trying: None,
            due: Uptime::default(),
            last_try: Uptime::default(),
            pause: FIRST_PAUSE,
            pace: Pace::default(),
            has_heard: false,
            is_noted: false,
            asked_for: 0,
            empty_since: None,
            queue,
            context,
        }
    }

    async fn run(&mut self) {
        loop {
            let now = self.context.clock.uptime();
            self.dismiss_late(now);
            self.pass_over(now);
            let view = self.queue.line.lock().view();
            if self.is_idle(&view, now) {
                if std::mem::take(&mut self.is_noted) {
                    self.is_noted = self.leave().await;
                } else if self.context.queues.retire(&self.queue) {
                    return;
                }
                continue;
            }
            let wakes_at = self.plan(&view, now);
            self.queue.line.lock().racer_sleeps_until(wakes_at);
            self.sleep(wakes_at).await;
        }
    }

    /// Tells those whose patience has ended.
    fn dismiss_late(&mut self, now: Uptime) {
        let (late, obstacle) = {
            let mut line = self.queue.line.lock();
            (line.take_late(now), line.obstacle(now))
        };
        for place in late {
            place.deliver(match obstacle.clone() {
                Some(Obstacle::Busy(busy)) => Outcome::Busy(busy),
                Some(Obstacle::Trouble(error)) => Outcome::Failed(error),
                None => Outcome::Failed(no_answer(&place)),
            });
        }
    }

    /// Takes the lock from one who was given it and does not come for it, because nothing drives their runtime.
    fn pass_over(&self, now: Uptime) {
        let unclaimed = self.queue.line.lock().unclaimed();
        let late = unclaimed.filter(|(_, until)| now >= *until).and_then(|(place, _)| place.take_back());
        if late.is_some() {
            tracing::warn!(key = %self.queue.keys, "a caller did not come for a lock and was passed over");
        }
        // Dropped outside of all locks: it goes to the next, or is released.
        drop(late);
    }

    /// Nobody has stood in the line for a while.
    fn is_idle(&mut self, view: &View, now: Uptime) -> bool {
        if view.waiting > 0 || view.is_unclaimed || self.trying.is_some() {
            self.empty_since = None;
            return false;
        }
        let since = *self.empty_since.get_or_insert(now);
        now >= since.after(LINGER)
    }

    /// Starts what is due; says when to look again.
    fn plan(&mut self, view: &View, now: Uptime) -> Uptime {
        let Some(front) = view.front.clone() else {
            return self.empty_since.unwrap_or(now).after(LINGER).min(view.first_limit);
        };
        if self.trying.is_some() {
            return view.first_limit;
        }
        let due = self.next_try(view);
        if now < due {
            return due.min(view.first_limit);
        }
        self.start(front, view.waiting, now);
        view.first_limit
    }

    /// While the lock is ours, others are asked for when it was passed on; and the note of presence is kept up.
    fn next_try(&self, view: &View) -> Uptime {
        if !view.is_ours {
            return self.due.max(view.stands_back_until);
        }
        let soon = self.last_try.after(ASK_EVERY).max(view.turn_ends);
        let is_wanted = view.was_passed && !view.others_wait;
        if is_wanted { soon } else { self.last_try.after(BACKSTOP.mul_f64(0.8)) }
    }

    fn start(&mut self, front: Arc<Place>, waiting: u32, now: Uptime) {
        self.queue.line.lock().has_asked();
        (self.last_try, self.is_noted, self.asked_for) = (now, true, waiting);
        self.has_heard = false;
        let within = self.context.response_timeout;
        // A token of the caller's own goes into one request only, a swap; they may be handed the lock meanwhile.
        let lock = front.lock.without_token();
        let waiter = Waiter { keeper: self.queue.name.clone(), count: waiting };
        self.trying = Some(Box::pin(async move {
            let result = attempt::watch(&lock, front.lease, waiter, within).await;
            (front, result)
        }));
    }

    async fn sleep(&mut self, wakes_at: Uptime) {
        let queue = self.queue.clone();
        let clock = self.context.clock.clone();
        tokio::select! {
            biased;
            (asked_for, result) = finished(&mut self.trying) => {
                self.trying = None;
                self.conclude(&asked_for, result);
            }
            () = queue.stirred.notified() => {
                self.pause = FIRST_PAUSE;
                self.hasten(clock.uptime());
            }
            () = changed(self.watcher.as_ref()) => {
                self.has_heard = true;
                self.hasten(clock.uptime());
            }
            () = sleep_until(&*clock, wakes_at), if wakes_at < Uptime::MAX => {}
        }
    }

    fn hasten(&mut self, now: Uptime) {
        if self.due > now {
            self.due = self.due.min(self.pace.next(now));
        }
    }

    fn conclude(&mut self, asked_for: &Arc<Place>, result: Result<(Tried, bool), Error>) {
        let now = self.context.clock.uptime();
        let has_heard = std::mem::take(&mut self.has_heard);
        match result {
            Ok((Tried::Taken(tenure), others_wait)) => {
                self.pause = FIRST_PAUSE;
                self.due = now;
                self.is_noted = self.asked_for > 1;
                self.queue.won(&tenure, others_wait, asked_for);
            }
            Ok((Tried::Busy(busy), others_wait)) => {
                self.due = now.after(self.until_next(busy.remaining));
                if has_heard {
                    // On another thread the notice may have overtaken the answer before it.
                    self.hasten(now);
                }
                let mut line = self.queue.line.lock();
                line.set_others_wait(others_wait);
                line.set_last(Obstacle::Busy(busy));
            }
            Err(error) if may_be_repeated(&asked_for.lock.without_token(), &error) => {
                self.due = now.after(self.until_next(None));
                self.queue.line.lock().set_last(Obstacle::Trouble(error));
            }
            Err(error) => {
                self.due = now;
                self.queue.leave(asked_for);
                asked_for.deliver(Outcome::Failed(error));
            }
        }
    }

    /// Shortly after the end of the holder's lease, and at the latest after the backstop; with jitter.
    fn until_next(&mut self, remaining: Option<Duration>) -> Duration {
        let longest = if self.hears() { BACKSTOP } else { self.pause };
        self.pause = (self.pause * 2).min(BACKSTOP);
        let pause = longest.mul_f64(rand::random_range(0.5..1.0));
        match remaining {
            Some(left) => pause.min(left + Duration::from_micros(rand::random_range(1000..5000))),
            None => pause,
        }
    }

    /// Takes the note away, unless somebody comes meanwhile; true if it may still stand.
    async fn leave(&mut self) -> bool {
        let (queue, context) = (self.queue.clone(), self.context.clone());
        let leaving = leave(&context, &queue.keys, queue.name.clone());
        tokio::select! {
            biased;
            () = queue.stirred.notified() => {
                self.hasten(context.clock.uptime());
                true
            }
            () = leaving => false,
        }
    }

    fn hears(&self) -> bool {
        let Some((hears, may_not_hear)) = self.context.backend.hearing(&self.queue.keys) else {
            return false;
        };
        if may_not_hear && !self.context.queues.has_fallen_back.swap(true, Ordering::Relaxed) {
            telemetry::waiting_fell_back();
        }
        hears
    }
}

/// Takes the note of presence away, as far as that is possible: it goes by itself soon. Before the line is taken
/// away, so that it is not the note of another line for the same keys.
async fn leave(context: &RaceContext, keys: &Keys, keeper: KeeperName) {
    let leave = Leave { keeper };
    let within = context.response_timeout.min(LEAVE);
    let left = context.backend.apply(Lane::Renewal, keys, leave, within).await;
    if let Err(error) = left {
        tracing::debug!(key = %keys, %error, "a note of presence was left to its end");
    }
}

/// A token that is being compensated is never used again. Ours is fresh for every try; a given one is not.
pub(in crate::lock) fn may_be_repeated(lock: &Lock, error: &Error) -> bool {
    if lock.stops_when_away && is_away(error) {
        return false;
    }
    match error.kind() {
        // Who asked for more than there is should hear of it.
        ErrorKind::NotDurable { .. } => false,
        ErrorKind::OutcomeUnknown { .. } | ErrorKind::Lost => lock.token.is_none(),
        _ => error.is_transient(),
    }
}

fn no_answer(place: &Place) -> Error {
    Error::new(
        ErrorKind::Busy,
        "acquire",
        "others of this process wait for it, and the wait limit has passed",
    )
    .with_key(&place.lock.keys)
}

async fn finished(trying: &mut Option<Trying>) -> (Arc<Place>, Result<(Tried, bool), Error>) {
    match trying {
        Some(trying) => trying.await,
        None => std::future::pending().await,
    }
}

async fn changed(watcher: Option<&AnyWatcher>) {
    match watcher {
        Some(watcher) => watcher.changed().await,
        None => std::future::pending().await,
    }
}

/// Bounds the tries that notices cause: [`BURST`] at once, then one per [`PER_TRY`].
#[derive(Default)]
struct Pace {
    /// When the budget is whole again.
    whole_at: Uptime,
}

impl Pace {
    /// When the next one may be; takes it from the budget.
    fn next(&mut self, now: Uptime) -> Uptime {
        let whole_at = self.whole_at.max(now).after(PER_TRY);
        self.whole_at = whole_at.min(now.after(PER_TRY * (BURST + 1)));
        let allowed = self.whole_at.before(PER_TRY * BURST);
        allowed.max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_cause_a_burst_and_then_a_bounded_rate() {
        let (mut pace, start) = (Pace::default(), Uptime::from_micros(1_000_000_000));
        for _ in 0..BURST {
            assert_eq!(pace.next(start), start);
        }
        for number in 1..100 {
            let now = start.after(PER_TRY * number);
            assert!(pace.next(now) <= now.after(PER_TRY), "{number}");
        }
        let late = start.after(Duration::from_secs(10));
        assert_eq!(pace.next(late), late);
    }
}
