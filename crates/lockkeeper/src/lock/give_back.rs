//! Giving back in the background: releases that nobody waits for, and compensation of what may have been taken.

use std::time::Duration;

use lockkeeper_core::lock::{OwnerToken, Release, ReleaseReply};
use lockkeeper_core::{Clock, Error, Keys, Timestamp, Uptime};
use lockkeeper_redis::Lane;

use crate::backend::Backend;
use crate::clock::sleep_until;
use std::sync::Arc;

/// The first pause between tries; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A token to be removed from its keys.
///
/// Invariant 5: a removal on one connection can overtake an acquire that sits in another one. So it is repeated until
/// one answer came after the acquire's "not after" had passed on that server; bounded by `give_up`, when the lease
/// has ended by itself.
#[derive(Debug)]
pub(crate) struct GiveBack {
    keys: Keys,
    token: OwnerToken,
    not_after: Option<Timestamp>,
    give_up: Uptime,
}

impl GiveBack {
    pub(crate) fn new(keys: Keys, token: OwnerToken, not_after: Option<Timestamp>, give_up: Uptime) -> Self {
        Self { keys, token, not_after, give_up }
    }

    pub(crate) fn token(&self) -> &OwnerToken {
        &self.token
    }

    /// Works until it is done or given up; then the token is free.
    pub(crate) async fn run(
        self,
        backend: Backend,
        clock: Arc<dyn Clock>,
        response_timeout: Duration,
    ) -> OwnerToken {
        self.work(&backend, &*clock, response_timeout).await;
        self.token
    }

    async fn work(&self, backend: &Backend, clock: &dyn Clock, response_timeout: Duration) {
        let mut pause = FIRST_PAUSE;
        loop {
            let now = clock.uptime();
            let next = match self.release_once(backend, response_timeout).await {
                Ok(at) if self.is_settled(at) => return,
                // Until the server's clock has passed "not after", and a little more.
                Ok(at) => {
                    self.not_after.map_or(FIRST_PAUSE, |limit| limit.since(at) + Duration::from_millis(1))
                }
                Err(error) => {
                    tracing::debug!(key = %self.keys, %error, "giving back goes on");
                    let jittered = pause.mul_f64(rand::random_range(0.5..1.0));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    jittered
                }
            };
            if now.after(next) > self.give_up {
                tracing::warn!(key = %self.keys, "a lock was left to its lease: it could not be given back");
                return;
            }
            sleep_until(clock, clock.uptime().after(next)).await;
        }
    }

    async fn release_once(&self, backend: &Backend, within: Duration) -> Result<Timestamp, Error> {
        let answer =
            backend.apply(Lane::Renewal, &self.keys, Release { token: self.token.clone() }, within).await?;
        if let ReleaseReply::HeldByAnother(_, holder) = &answer.reply {
            tracing::debug!(key = %self.keys, %holder, "given back: held by another");
        }
        Ok(answer.at)
    }

    fn is_settled(&self, at: Timestamp) -> bool {
        self.not_after.is_none_or(|limit| at > limit)
    }
}
