//! Acquiring with patience: one try, then a place in the line of those of this keeper who wait.

use std::time::Duration;

use lockkeeper_core::lock::Lease;
use lockkeeper_core::{Error, ErrorKind, Uptime};

use super::attempt::{self, Tried};
use super::builder::Lock;
use super::guard::LockGuard;
use super::outcome::{Acquired, Busy};
use super::queue::{Outcome, may_be_repeated};
use super::swap::{Swapped, swap};

/// Tries once; nobody waits for it.
pub(super) async fn try_once(lock: &Lock, lease: Lease) -> Result<Acquired, Error> {
    match attempt::once(lock, lease, lock.inner.response_timeout).await? {
        Tried::Busy(busy) => Ok(Acquired::Busy(busy)),
        Tried::Taken(tenure) => Ok(tenure.first_holder(lock).map_or_else(
            || unreachable!("a tenure that was just made has a seat"),
            |held| Acquired::Held(LockGuard::new(held)),
        )),
    }
}

/// Tries until held, or until the limit has passed that began at `since`.
pub(super) async fn acquire(lock: &Lock, lease: Lease, since: Uptime) -> Result<Acquired, Error> {
    if lock.wait == Some(Duration::ZERO) {
        return try_once(lock, lease).await;
    }
    let clock = &*lock.inner.clock;
    let until = lock.wait.map(|limit| since.after(limit));
    let mut seen = None;
    // A token of the caller's own may be that of an acquisition that stands: only the server knows.
    if lock.token.is_some() || !lock.inner.queues.has_line(lock) {
        match try_once(lock, lease).await {
            Ok(Acquired::Busy(busy)) => seen = Some(busy),
            Err(error) if may_be_repeated(lock, &error) => {
                if until.is_some_and(|until| clock.uptime() >= until) {
                    return Err(error);
                }
            }
            result => return result,
        }
    }
    stand_in_line(lock, lease, until, seen).await
}

/// Waits until it is this caller's turn. Whoever was given a lock that was lost meanwhile stands at the front again.
async fn stand_in_line(
    lock: &Lock,
    lease: Lease,
    until: Option<Uptime>,
    mut seen: Option<Busy>,
) -> Result<Acquired, Error> {
    let mut at_front = false;
    loop {
        lock.check_open()?;
        let held = match lock.inner.queues.join(lock, lease, until, seen.take(), at_front).await {
            Outcome::Held(held) => held,
            Outcome::Busy(busy) => return Ok(Acquired::Busy(busy)),
            Outcome::Failed(error) => return Err(error),
            Outcome::Missed => {
                at_front = true;
                continue;
            }
            Outcome::Baton(baton) => match swap(lock, lease, baton).await {
                Ok(Swapped::Held(held)) => held,
                Ok(Swapped::Lost) => {
                    at_front = true;
                    continue;
                }
                Err(error) if may_be_repeated(lock, &error) => {
                    at_front = true;
                    continue;
                }
                Err(error) => return Err(error),
            },
        };
        if held.is_valid() {
            return Ok(Acquired::Held(LockGuard::new(held)));
        }
        if lock.token.is_some() {
            // It is given back by now, and serves no second acquisition.
            return Err(Error::new(ErrorKind::Lost, "acquire", "the lease ended before it was claimed")
                .with_key(&lock.keys));
        }
        at_front = true;
    }
}
