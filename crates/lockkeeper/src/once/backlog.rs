//! What the ends of attempts that go on by themselves may take, over all attempts of a keeper.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// So many are sent at once; more wait for their turn.
const MAX_SENT: usize = 16;
/// So many bytes of results are kept for them. Of what comes beyond is recorded that it completed, without its result.
pub(super) const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;

/// The bounds, and how much of them is taken.
#[derive(Debug)]
pub(super) struct Backlog {
    places: Semaphore,
    bytes: Arc<AtomicUsize>,
}

/// So many bytes are kept, until this is dropped.
#[derive(Debug)]
pub(super) struct Kept {
    bytes: Arc<AtomicUsize>,
    length: usize,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { places: Semaphore::new(MAX_SENT), bytes: Arc::default() }
    }
}

impl Backlog {
    /// `None` where there is no room.
    pub(super) fn keep(&self, length: usize) -> Option<Kept> {
        let more = |kept: usize| kept.checked_add(length).filter(|sum| *sum <= MAX_KEPT_BYTES);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Kept { bytes: self.bytes.clone(), length })
    }

    /// The right to send one.
    pub(super) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.acquire().await.ok()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.length, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_bytes_are_kept_and_come_back() {
        let backlog = Backlog::default();
        let most = backlog.keep(MAX_KEPT_BYTES - 1).unwrap();
        let last = backlog.keep(1).unwrap();
        assert!(backlog.keep(1).is_none() && backlog.keep(usize::MAX).is_none());
        assert!(backlog.keep(0).is_some(), "what takes nothing has room");
        drop(last);
        assert!(backlog.keep(2).is_none() && backlog.keep(1).is_some());
        drop(most);
        assert!(backlog.keep(MAX_KEPT_BYTES).is_some());
    }

    #[tokio::test]
    async fn so_many_are_sent_at_once() {
        let backlog = Backlog::default();
        let mut sent = Vec::new();
        for _ in 0..MAX_SENT {
            sent.push(backlog.place().await);
        }
        assert!(futures_util::FutureExt::now_or_never(backlog.place()).is_none());
        sent.pop();
        assert!(futures_util::FutureExt::now_or_never(backlog.place()).is_some());
    }
}
