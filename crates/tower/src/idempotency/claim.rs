//! The right to run this request, as the layer and the handler share it.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Attempt, Fence, LossReason};
use parking_lot::Mutex;
use tokio::sync::watch;

/// In the extensions of every request that runs under an idempotency key.
///
/// ```
/// use lockkeeper_tower::idempotency::Claim;
///
/// async fn order(request: http::Request<String>) {
///     let Some(claim) = request.extensions().get::<Claim>() else { return };
///     // The last line is the database: it refuses a fence that is older than what it has seen, and a second row with this
///     // operation's key.
///     let _ = (claim.fence(), claim.key());
/// }
/// # drop(order(http::Request::default()));
/// ```
///
/// When the lease is lost, the handler is told, and not cut off: it may be halfway through its effect. Its answer is not
/// kept then.
#[derive(Clone)]
pub struct Claim {
    shared: Arc<Shared>,
}

struct Shared {
    fence: Fence,
    attempt: u64,
    is_takeover: bool,
    once: String,
    key: String,
    /// Until it ended. The layer ends it, so a handler that keeps a claim for longer does not keep it alive.
    running: Mutex<Option<Attempt>>,
    loss: watch::Sender<Option<LossReason>>,
}

impl Claim {
    /// Of the record with this key, of the operations with this name.
    pub(super) fn new(attempt: Attempt, once: &str, key: String) -> Self {
        let shared = Shared {
            fence: attempt.fence(),
            attempt: attempt.attempt(),
            is_takeover: attempt.is_takeover(),
            once: once.to_owned(),
            key,
            running: Mutex::new(Some(attempt)),
            loss: watch::Sender::new(None),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Greater than that of every earlier attempt. The resource refuses a smaller one than it has seen.
    pub fn fence(&self) -> Fence {
        self.shared.fence
    }

    /// How many attempts there were, with this one; the first is one.
    pub fn attempt(&self) -> u64 {
        self.shared.attempt
    }

    /// The attempt before it went away without an end, so its effect may be there already.
    pub fn is_takeover(&self) -> bool {
        self.shared.is_takeover
    }

    /// The record's key, as [`Once::inspect`](lockkeeper::Once::inspect) takes it: 64 hexadecimal digits, the same for every
    /// attempt at this operation.
    ///
    /// For a unique index, together with [`once`](Self::once). It is made of the caller, the method, the target and the client's
    /// key, so it comes again when a client uses its key again after the retention, or for another request after an attempt
    /// that had no effect: the index then refuses what the layer would let through, or the row of an attempt that was undone
    /// has to be undone with it.
    pub fn key(&self) -> &str {
        &self.shared.key
    }

    /// The name of the operations that it is one of: that of [`Keeper::once`](lockkeeper::Keeper::once).
    pub fn once(&self) -> &str {
        &self.shared.once
    }

    pub(super) fn is_of(&self, once: &str, key: &str) -> bool {
        self.shared.once == once && self.shared.key == key
    }

    /// It is still this request's to run, by this process's clock.
    pub fn is_valid(&self) -> bool {
        self.shared.running.lock().as_ref().is_some_and(Attempt::is_valid)
    }

    /// What is left of the lease, if it is not renewed.
    pub fn remaining(&self) -> Duration {
        self.shared.running.lock().as_ref().map_or(Duration::ZERO, Attempt::remaining)
    }

    /// Why it was lost, if it was.
    pub fn loss(&self) -> Option<LossReason> {
        self.shared.loss.borrow().clone()
    }

    /// Waits until it is lost; for ever, if it never is.
    ///
    /// **Cancel safety:** nothing is left behind.
    pub async fn lost(&self) -> LossReason {
        let mut losses = self.shared.loss.subscribe();
        match losses.wait_for(Option::is_some).await.map(|loss| loss.clone()) {
            Ok(Some(reason)) => reason,
            _ => std::future::pending().await,
        }
    }

    /// Tells of the loss when it comes. An end that the layer wanted is none. Never ends.
    pub(super) async fn watch(&self) -> Infallible {
        let watched = self.shared.running.lock().clone();
        if let Some(attempt) = watched {
            let reason = attempt.lost().await;
            if !matches!(reason, LossReason::Released | LossReason::HandedOver) {
                self.shared.loss.send_replace(Some(reason));
            }
        }
        std::future::pending().await
    }

    /// The attempt, to be ended: once.
    pub(super) fn take(&self) -> Option<Attempt> {
        self.shared.running.lock().take()
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("once", &self.shared.once)
            .field("key", &self.shared.key)
            .field("fence", &self.shared.fence)
            .field("attempt", &self.shared.attempt)
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}
