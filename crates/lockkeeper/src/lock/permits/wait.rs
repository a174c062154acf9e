//! Acquiring a permit with patience: one try, then a place in the line of those of this keeper who wait for the name.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::Lease;
use lockkeeper_core::{Clock, Error, ErrorKind, Uptime};
use tokio::sync::SemaphorePermit;

use super::attempt;
use super::concurrency::Concurrency;
use super::line::{Line, Obstacle};
use super::outcome::AcquiredPermit;
use crate::clock::sleep_until;
use crate::telemetry::Class;

/// Who has the turn asks again after this, in milliseconds: other processes release without a word.
const POLL_MS: std::ops::Range<u64> = 50..100;
/// So long after the end of a lease, in microseconds, nobody can hold it any more.
const AFTER_END_US: std::ops::Range<u64> = 1000..5000;

/// Tries until held, or until the limit has passed.
pub(super) async fn acquire(wanted: &Concurrency, lease: Lease) -> Result<AcquiredPermit, Error> {
    let line = wanted.inner.permits.of(&wanted.keys);
    // The line was made before this look, so that whoever closes the keeper sees either of the two.
    wanted.check_open()?;
    if wanted.wait == Some(Duration::ZERO) {
        return attempt::once(wanted, lease, &line).await;
    }
    let until = wanted.wait.map_or(Uptime::MAX, |limit| wanted.inner.clock.uptime().after(limit));
    let mut seen = None;
    if !line.is_occupied() {
        match ask(wanted, lease, &line).await? {
            Asked::Held(held) => return Ok(held),
            Asked::Not(obstacle) => seen = Some(obstacle),
        }
    }
    stand_in_line(wanted, lease, &line, until, seen).await
}

/// One who waits, for telemetry.
struct Waits(Class);

impl Waits {
    fn counted(class: Class) -> Self {
        class.waiting(1);
        Self(class)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting(-1);
    }
}

enum Asked {
    Held(AcquiredPermit),
    Not(Obstacle),
}

/// Asks once. What time may mend is an obstacle, anything else an error.
async fn ask(wanted: &Concurrency, lease: Lease, line: &Arc<Line>) -> Result<Asked, Error> {
    line.asks(wanted.inner.clock.uptime());
    let obstacle = match attempt::once(wanted, lease, line).await {
        Ok(AcquiredPermit::Full(full)) => Obstacle::Full(full),
        Ok(held) => return Ok(Asked::Held(held)),
        // Who asked for more than there is should hear of it.
        Err(error) if error.is_not_durable() => return Err(error),
        Err(error) if error.is_transient() || error.is_lost() => Obstacle::Trouble(error),
        Err(error) => return Err(error),
    };
    line.set_last(obstacle.clone());
    Ok(Asked::Not(obstacle))
}

/// Waits for the turn, then asks until there is a permit. `seen` is what was in the way a moment ago.
async fn stand_in_line(
    wanted: &Concurrency,
    lease: Lease,
    line: &Arc<Line>,
    until: Uptime,
    mut seen: Option<Obstacle>,
) -> Result<AcquiredPermit, Error> {
    let clock = &*wanted.inner.clock;
    let _standing = line.stand();
    let _counted = Waits::counted(wanted.class);
    let _turn = match line.turn_at_once() {
        Some(turn) => turn,
        None => match wait_for_turn(wanted, lease, line, until).await? {
            Turn::Come(turn) => {
                // Those before may have been given what was free: only the server knows.
                seen = None;
                turn
            }
            Turn::Held(held) => return Ok(held),
            Turn::Late => return no_turn(wanted, line, seen),
        },
    };
    loop {
        if let Some(obstacle) = seen.take() {
            pause(clock, line, &obstacle, until).await;
            wanted.check_open()?;
            if clock.uptime() >= until {
                return end(obstacle);
            }
        }
        match ask(wanted, lease, line).await? {
            Asked::Held(held) => return Ok(held),
            Asked::Not(obstacle) => seen = Some(obstacle),
        }
    }
}

enum Turn<'a> {
    Come(SemaphorePermit<'a>),
    /// Got without a turn.
    Held(AcquiredPermit),
    /// The time is up.
    Late,
}

/// Waits behind others; asks in their place when whoever has the turn does not.
async fn wait_for_turn<'a>(
    wanted: &Concurrency,
    lease: Lease,
    line: &'a Arc<Line>,
    until: Uptime,
) -> Result<Turn<'a>, Error> {
    let clock = &*wanted.inner.clock;
    let mut turn = std::pin::pin!(line.turn());
    loop {
        tokio::select! {
            biased;
            turn = &mut turn => return turn.map(Turn::Come).ok_or_else(|| wanted.closed()),
            () = sleep_until(clock, until.min(line.stalls_at())) => {}
        }
        let now = clock.uptime();
        if now >= until {
            return Ok(Turn::Late);
        }
        if line.asks_for_stalled(now)
            && let Asked::Held(held) = ask(wanted, lease, line).await?
        {
            return Ok(Turn::Held(held));
        }
    }
}

/// Until this process gives a permit back, the first lease has ended, or it is time to ask again.
async fn pause(clock: &dyn Clock, line: &Line, obstacle: &Obstacle, until: Uptime) {
    let poll = Duration::from_millis(rand::random_range(POLL_MS));
    let pause = match obstacle {
        Obstacle::Full(full) => {
            poll.min(full.retry_after + Duration::from_micros(rand::random_range(AFTER_END_US)))
        }
        Obstacle::Trouble(_) => poll,
    };
    tokio::select! {
        () = line.wait_for_freed() => {}
        () = sleep_until(clock, clock.uptime().after(pause).min(until)) => {}
    }
}

/// The time is up before it was the caller's turn: what those before were told last.
fn no_turn(wanted: &Concurrency, line: &Line, seen: Option<Obstacle>) -> Result<AcquiredPermit, Error> {
    let unknown = || {
        let detail = "others of this process wait for it, and the wait limit has passed";
        Obstacle::Trouble(Error::new(ErrorKind::Busy, "acquire_permit", detail).with_key(&wanted.keys))
    };
    end(line.last().or(seen).unwrap_or_else(unknown))
}

fn end(obstacle: Obstacle) -> Result<AcquiredPermit, Error> {
    match obstacle {
        Obstacle::Full(full) => Ok(AcquiredPermit::Full(full)),
        Obstacle::Trouble(error) => Err(error),
    }
}
