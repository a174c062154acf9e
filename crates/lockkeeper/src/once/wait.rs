//! Beginning with patience: one try, then a place among those of this keeper who wait for the end of the same attempt.
//!
//! One of them asks often: when the server tells of a change, shortly after the end of the lease, and at the latest after a
//! second. The others ask when it was told something else than *running*, when the attempt ended inside this process, and, in
//! case that its task is not polled, now and then by themselves.

use std::time::Duration;

use lockkeeper_core::idempotency::Fingerprint;
use lockkeeper_core::{Clock, Error, Keys, Uptime};
use lockkeeper_redis::{Lane, Watcher};
use tokio::sync::SemaphorePermit;
use tokio::sync::futures::Notified;

use super::begin::{self, Asked};
use super::builder::{Once, Terms};
use super::line::Standing;
use super::outcome::{Begun, Replay};
use crate::backend::Backend;
use crate::clock::sleep_until;
use crate::telemetry::OnceClass;

/// The longest time without a question of the one who asks often.
const BACKSTOP: Duration = Duration::from_secs(1);
/// Where the server tells of no changes: the first pause; it doubles up to the backstop.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest time without a question of anybody else.
const BEHIND: Duration = Duration::from_secs(5);
/// The least time between two questions that the server's notices cause.
const LEAST: Duration = Duration::from_millis(2);
/// So long after the end of a lease, in microseconds, it has ended on the server too.
const AFTER_END_US: std::ops::Range<u64> = 1000..5000;

/// Tries until there is another answer than *running*, or until the limit has passed.
pub(super) async fn begin(
    once: &Once,
    keys: &Keys,
    terms: Terms,
    fingerprint: Fingerprint,
    limit: Duration,
) -> Result<Begun, Error> {
    let line = once.inner.onces.of(keys);
    // The line was made before this look, so that whoever closes the keeper sees either of the two.
    once.check_open(keys)?;
    let asked = Asked { once, keys, terms, fingerprint, line: &line };
    let clock = &*once.inner.clock;
    let until = clock.uptime().after(limit);
    // Made before each question: an end that is told while the answer is on its way is heard.
    let mut told = line.told();
    let mut seen = begin::once(asked, Lane::Command).await;
    if limit.is_zero() || !may_change(&seen) {
        return seen;
    }
    let Some(mut waiting) = Waiting::new(asked, until) else { return seen };
    loop {
        waiting.pause(&seen, told).await;
        once.check_open(keys)?;
        if let Some(replay) = waiting.known() {
            return Ok(Begun::Completed(replay));
        }
        if clock.uptime() >= until {
            return waiting.by_now(seen);
        }
        told = line.told();
        seen = waiting.ask().await;
        if !may_change(&seen) {
            return seen;
        }
    }
}

/// Time may mend it.
fn may_change(seen: &Result<Begun, Error>) -> bool {
    match seen {
        Ok(begun) => matches!(begun, Begun::Running { .. }),
        Err(error) => error.is_transient() || error.is_lost(),
    }
}

/// One who waits.
struct Waiting<'a> {
    asked: Asked<'a>,
    since: Uptime,
    until: Uptime,
    last_question: Uptime,
    /// It asks often, for all.
    turn: Option<SemaphorePermit<'a>>,
    watcher: Option<Watcher>,
    pause: Duration,
    _standing: Standing<'a>,
    _counted: Counted,
}

impl<'a> Waiting<'a> {
    /// `None` where too many wait already.
    fn new(asked: Asked<'a>, until: Uptime) -> Option<Self> {
        let (since, standing) = (asked.once.inner.clock.uptime(), asked.line.stand()?);
        Some(Self {
            asked,
            since,
            until,
            last_question: since,
            turn: None,
            watcher: None,
            pause: FIRST_PAUSE,
            _standing: standing,
            _counted: Counted::new(asked.once.class),
        })
    }

    /// The result, if somebody in the line has learned it meanwhile.
    fn known(&self) -> Option<Replay> {
        self.asked.line.known(self.asked.fingerprint, self.since, self.asked.once.inner.clock.uptime())
    }

    /// What was answered to the last question, with what is left by now.
    fn by_now(&self, seen: Result<Begun, Error>) -> Result<Begun, Error> {
        let passed = self.asked.once.inner.clock.uptime().since(self.last_question);
        seen.map(|begun| match begun {
            Begun::Running { holder, attempt, retry_after } => {
                let retry_after = retry_after.saturating_sub(passed).max(begin::SHORTEST_HINT);
                Begun::Running { holder, attempt, retry_after }
            }
            begun => begun,
        })
    }

    /// Asks; over the connection that is told of changes from then on, if it asks for all. These hear of any other answer.
    async fn ask(&mut self) -> Result<Begun, Error> {
        self.last_question = self.asked.once.inner.clock.uptime();
        let lane = if self.watcher.is_some() { Lane::Waiting } else { Lane::Command };
        let (seen, Asked { line, fingerprint, .. }) = (begin::once(self.asked, lane).await, self.asked);
        let is_claimed = matches!(seen, Ok(Begun::Claimed(_)));
        if let Ok(Begun::Completed(replay)) = &seen {
            line.answered(fingerprint, replay, self.last_question);
        }
        if self.turn.is_some() && !is_claimed && !may_change(&seen) {
            line.ended();
        }
        seen
    }

    /// Until it is time to ask again.
    async fn pause(&mut self, seen: &Result<Begun, Error>, told: Notified<'_>) {
        let (line, clock) = (self.asked.line, &*self.asked.once.inner.clock);
        if self.turn.is_none()
            && let Some(turn) = line.turn_at_once()
        {
            // Asks at once, so that it is told of changes.
            return self.take(turn);
        }
        let now = clock.uptime();
        let due = now.after(self.until_next(seen)).min(self.until);
        let turn = tokio::select! {
            biased;
            () = told => None,
            () = changed(self.watcher.as_ref(), clock, self.last_question.after(LEAST)) => None,
            () = sleep_until(clock, due) => None,
            turn = line.turn(), if self.turn.is_none() => turn,
        };
        if let Some(turn) = turn {
            self.take(turn);
        }
    }

    fn take(&mut self, turn: SemaphorePermit<'a>) {
        self.turn = Some(turn);
        if let Backend::Redis(lanes) = &self.asked.once.inner.backend {
            self.watcher = lanes.on(Lane::Waiting).watcher(self.asked.keys);
        }
    }

    /// Shortly after the end of the lease, and at the latest after the backstop; with jitter.
    fn until_next(&mut self, seen: &Result<Begun, Error>) -> Duration {
        let longest = match &self.turn {
            None => BEHIND,
            Some(_) if self.hears() => BACKSTOP,
            Some(_) => self.pause,
        };
        self.pause = (self.pause * 2).min(BACKSTOP);
        let pause = longest.mul_f64(rand::random_range(0.5..1.0));
        match seen {
            // Those behind are told by whoever has the turn.
            Ok(Begun::Running { retry_after, .. }) if self.turn.is_some() => {
                pause.min(*retry_after + Duration::from_micros(rand::random_range(AFTER_END_US)))
            }
            _ => pause,
        }
    }

    fn hears(&self) -> bool {
        match &self.asked.once.inner.backend {
            Backend::Redis(lanes) => {
                self.watcher.is_some() && lanes.on(Lane::Waiting).hears_changes(self.asked.keys)
            }
            _ => false,
        }
    }
}

/// The server tells of a change; not before `earliest`.
async fn changed(watcher: Option<&Watcher>, clock: &dyn Clock, earliest: Uptime) {
    match watcher {
        Some(watcher) => watcher.changed().await,
        None => std::future::pending().await,
    }
    sleep_until(clock, earliest).await;
}

/// One who waits, for telemetry.
struct Counted(OnceClass);

impl Counted {
    fn new(class: OnceClass) -> Self {
        class.waiting(1);
        Self(class)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.waiting(-1);
    }
}
