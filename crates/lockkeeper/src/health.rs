//! How a keeper stands, and its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_core::Error;
use lockkeeper_redis::{Lane, ServerInfo};

use crate::backend::Backend;
use crate::keeper::Keeper;

/// How a keeper stands. See [`Keeper::health`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Health {
    /// `memory`, `redis`, `quorum` or `other`.
    pub store: &'static str,
    /// The server's address, without credentials.
    pub address: String,
    /// The time that one request took, or why there was no answer.
    pub round_trip: Result<Duration, Error>,
    /// What the server is; none for a majority, see [`Keeper::quorum_store`].
    pub server: Option<Arc<ServerInfo>>,
    /// The renewal connection stands (it is made as soon as anything is held).
    pub renewal_connected: bool,
    /// By how much the server's clock is ahead of this machine's, in microseconds.
    pub server_ahead_us: i64,
    /// Locks held through this keeper.
    pub held: usize,
    /// Permits held through this keeper.
    pub permits: usize,
    /// Attempts of idempotent operations that run through this keeper.
    pub running: usize,
    /// Callers that wait for a lock, a permit, or the end of an attempt.
    pub waiting: usize,
    /// Locks held inside this process only, because the store was away when they were taken. See
    /// [`Lock::or_process_local`](crate::Lock::or_process_local).
    pub degraded: usize,
    /// Releases, compensations, and beginnings and ends of attempts under way.
    pub giving_back: usize,
}

/// What was left when a keeper was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Locks and permits that were still held, and attempts that still ran. They are lost, their leases run out.
    pub still_held: usize,
    /// Releases, compensations, beginnings and ends of attempts that got no answer in time; they lapse with their leases.
    pub undone: usize,
}

impl Keeper {
    /// Asks the store for a sign of life, and says how this keeper stands. Never fails: trouble is part of the answer.
    ///
    /// # Redis
    /// One `TIME`, one round trip.
    ///
    /// # Errors
    /// None.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn health(&self) -> Health {
        let inner = &self.inner;
        let started = inner.clock.uptime();
        let (answer, server, renewal_connected, server_ahead_us) = match &inner.backend {
            Backend::Redis(lanes) => {
                let store = lanes.on(Lane::Command);
                let answer = store.heartbeat(inner.response_timeout).await.map(|_| ());
                let server =
                    if answer.is_ok() { store.server_info(inner.response_timeout).await.ok() } else { None };
                (answer, server, lanes.on(Lane::Renewal).is_connected(), store.server_ahead_us())
            }
            Backend::Quorum(store) => {
                let answer = store.heartbeat(inner.response_timeout).await;
                (answer, None, store.on(Lane::Renewal).is_connected(), store.server_ahead_us())
            }
            _ => (Ok(()), None, true, 0),
        };
        Health {
            store: inner.backend.name(),
            address: inner.address.clone(),
            round_trip: answer.map(|()| inner.clock.uptime().since(started)),
            server,
            renewal_connected,
            server_ahead_us,
            held: inner.held_count.load(Ordering::Relaxed),
            permits: inner.permits.held(),
            running: inner.onces.running(),
            waiting: inner.queues.waiting() + inner.permits.waiting() + inner.onces.waiting(),
            degraded: inner.locals.degraded.load(Ordering::Relaxed),
            giving_back: inner.background.pending() + inner.backend.giving_back(),
        }
    }

    /// Takes no more locks and permits, begins no more attempts, checks no more limits, returns leased tokens, waits (at
    /// most `limit`) until releases, compensations and ends of attempts are done, and ends the keeper's thread. Locks and permits that are still held are lost
    /// to their guards at once, and lapse with their leases: releasing
    /// them under a working holder would let a second one in.
    ///
    /// A guard can still be released by hand afterwards.
    ///
    /// # Redis
    /// What is under way: one `EVALSHA` per release.
    ///
    /// # Errors
    /// None: what could not be done is part of the answer.
    ///
    /// # Cancel safety
    /// The keeper stays closed, and goes on giving back; call it again to wait on.
    pub async fn close(&self, limit: Duration) -> Closed {
        let inner = &self.inner;
        inner.closed.store(true, Ordering::Release);
        inner.queues.close();
        inner.permits.close();
        inner.onces.close();
        let all = async {
            futures_util::future::join(inner.background.drained(), inner.purses.close()).await;
            inner.backend.given_back().await;
        };
        let _ = tokio::time::timeout(limit, all).await;
        let still_held = inner.background.lose_all();
        let undone = inner.background.pending() + inner.backend.giving_back();
        inner.background.stop(inner.clock.uptime(), Duration::ZERO);
        Closed { still_held, undone }
    }
}
