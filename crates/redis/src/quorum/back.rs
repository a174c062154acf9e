//! Giving back at one server, in the background: what a request that failed may have taken there, and what a release did
//! not reach.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::lock::{OwnerToken, Release};
use lockkeeper_core::{Apply, ErrorKind, Keys, Timestamp, Uptime};
use tokio::time::timeout;

use super::Shared;
use crate::node::Lane;

/// The first pause between tries; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// So many tokens are given back at a time; what exceeds them is left to its lease.
const MAX_GIVING_BACK: usize = 4096;

/// A token on its way out of one server. It counts from when it is made until it is dropped.
pub(super) struct Leaving {
    shared: Arc<Shared>,
    token: OwnerToken,
}

impl Leaving {
    pub(super) fn new(shared: &Arc<Shared>, token: &OwnerToken) -> Self {
        shared.ledger.leaves(token);
        shared.giving_back.send_modify(|count| *count += 1);
        Self { shared: shared.clone(), token: token.clone() }
    }

    /// Again and again, until one answer came from after `doubt` had passed on that server; at most until `give_up`, when
    /// the lease has ended by itself (invariant 5).
    async fn run(self, node: usize, keys: Keys, doubt: Option<Timestamp>, give_up: Uptime) {
        let Some(store) = self.shared.node(node).map(|node| node.on(Lane::Renewal)) else { return };
        let mut pause = FIRST_PAUSE;
        loop {
            let release = Release { token: self.token.clone() };
            let next = match store.apply(&keys, release, self.shared.response_timeout).await {
                Ok(answer) => match doubt.filter(|until| answer.at <= *until) {
                    None => return,
                    Some(until) => until.since(answer.at) + Duration::from_millis(1),
                },
                // Something else is under the key: nothing of ours.
                Err(error) if error.kind() == ErrorKind::WrongType => return,
                Err(error) => {
                    tracing::debug!(key = %keys, %error, "giving back at one server goes on");
                    let jittered = pause.mul_f64(rand::random_range(0.5..1.0));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    jittered
                }
            };
            if self.shared.clock.uptime().after(next) > give_up {
                tracing::debug!(key = %keys, "at one server it was left to its lease");
                return;
            }
            tokio::time::sleep(next).await;
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.shared.ledger.left(&self.token);
        self.shared.giving_back.send_modify(|count| *count -= 1);
    }
}

impl Shared {
    /// Removes `token` from one server, without anybody waiting for it, on the majority's own thread.
    pub(super) fn give_back_at(
        self: &Arc<Self>,
        node: usize,
        keys: &Keys,
        token: &OwnerToken,
        doubt: Option<Timestamp>,
        give_up: Uptime,
    ) {
        if *self.giving_back.borrow() >= MAX_GIVING_BACK {
            tracing::warn!(key = %keys, "too much is being given back: it was left to its lease at one server");
            return;
        }
        self.home.spawn(Leaving::new(self, token).run(node, keys.clone(), doubt, give_up));
    }

    /// Waits, at most for `limit`, until nothing of `token` is being given back. True if so.
    pub(super) async fn has_left(&self, token: &OwnerToken, limit: Duration) -> bool {
        if !self.ledger.is_leaving(token) {
            return true;
        }
        let mut changes = self.giving_back.subscribe();
        let wait = async { while self.ledger.is_leaving(token) && changes.changed().await.is_ok() {} };
        timeout(limit, wait).await.is_ok()
    }
}
