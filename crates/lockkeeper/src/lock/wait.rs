//! Waiting: a poll with growing, jittered pauses, bounded by the holder's remaining time and the wait limit.

use std::time::Duration;

use lockkeeper_core::lock::Lease;
use lockkeeper_core::{Error, ErrorKind};

use super::attempt::{Try, once};
use super::builder::Lock;
use super::degraded::is_away;
use super::outcome::Acquired;
use crate::clock::sleep_until;

/// The first pause between polls; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause between polls.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Tries until held, or until the limit has passed and one more try was made.
pub(super) async fn acquire(lock: &Lock, lease: Lease) -> Result<Acquired, Error> {
    let clock = &*lock.inner.clock;
    let ends = lock.wait.map(|limit| clock.uptime().after(limit));
    let mut backoff = FIRST_PAUSE;
    let mut kind = Try::First;
    loop {
        let result = once(lock, lease, kind, lock.inner.response_timeout).await;
        let remaining = match &result {
            Ok(Acquired::Busy(busy)) => busy.remaining,
            Err(error) if may_try_again(lock, error) => None,
            _ => return result,
        };
        let now = clock.uptime();
        if ends.is_some_and(|ends| now >= ends) || lock.inner.is_closed() {
            return result;
        }
        let until = now.after(pause(backoff, remaining));
        sleep_until(clock, ends.map_or(until, |ends| until.min(ends))).await;
        backoff = (backoff * 2).min(LONGEST_PAUSE);
        kind = Try::Poll;
    }
}

/// A token that is being compensated is never used again. Ours is fresh for every try; a given one is not.
fn may_try_again(lock: &Lock, error: &Error) -> bool {
    if lock.stops_when_away && is_away(error) {
        return false;
    }
    match error.kind() {
        ErrorKind::OutcomeUnknown { .. } | ErrorKind::Lost => lock.token.is_none(),
        _ => error.is_transient(),
    }
}

/// Half to all of `backoff`, and no longer than until shortly after the holder's lease ends.
fn pause(backoff: Duration, remaining: Option<Duration>) -> Duration {
    let pause = backoff.mul_f64(rand::random_range(0.5..1.0));
    match remaining {
        Some(remaining) => pause.min(remaining + Duration::from_micros(rand::random_range(1000..5000))),
        None => pause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l116_l31_pauses_grow_to_a_ceiling_and_never_to_nothing() {
        let mut backoff = FIRST_PAUSE;
        for _ in 0..30 {
            let pause = pause(backoff, None);
            assert!(pause >= FIRST_PAUSE / 2 && pause <= LONGEST_PAUSE);
            backoff = (backoff * 2).min(LONGEST_PAUSE);
        }
        assert_eq!(backoff, LONGEST_PAUSE);
        let short = pause(LONGEST_PAUSE, Some(Duration::ZERO));
        assert!(short >= Duration::from_millis(1) && short < Duration::from_millis(6));
    }
}
