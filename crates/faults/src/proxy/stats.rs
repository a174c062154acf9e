//! What the proxy counts, so that a test waits for what has happened and not for time to pass.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a proxy has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Connections that are open now.
    pub connections: u64,
    /// Connections that were accepted since the start, without the refused ones.
    pub accepted: u64,
    /// Connections that were refused because the proxy was cut.
    pub refused: u64,
    /// Bytes that were forwarded to the server.
    pub request_bytes: u64,
    /// Bytes that were forwarded to clients.
    pub reply_bytes: u64,
    /// Bytes of requests that are kept at the moment: held, delayed, or not yet taken by the server.
    pub kept_request_bytes: u64,
    /// Bytes of replies that are kept at the moment: held, delayed, or not yet taken by the client.
    pub kept_reply_bytes: u64,
    /// Bytes that were thrown away, in both directions.
    pub dropped_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) requests: LaneCounters,
    pub(crate) replies: LaneCounters,
}

/// The counts of all lanes of one direction.
#[derive(Debug, Default)]
pub(crate) struct LaneCounters {
    pub(crate) forwarded: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Stats {
            connections: read(&self.connections),
            accepted: read(&self.accepted),
            refused: read(&self.refused),
            request_bytes: read(&self.requests.forwarded),
            reply_bytes: read(&self.replies.forwarded),
            kept_request_bytes: read(&self.requests.kept),
            kept_reply_bytes: read(&self.replies.kept),
            dropped_bytes: read(&self.requests.dropped) + read(&self.replies.dropped),
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::SeqCst);
}

pub(crate) fn subtract(counter: &AtomicU64, count: usize) {
    counter.fetch_sub(count as u64, Ordering::SeqCst);
}
