//! What a lane has read and not yet written, with the time at which each chunk was read.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How much one direction of a connection keeps before the sender has to wait.
const CAPACITY: usize = 16 * 1024 * 1024;

/// The queue between the reader and the writer of one lane, which run on the same thread.
#[derive(Default)]
pub(crate) struct Queue {
    chunks: RefCell<VecDeque<Chunk>>,
    bytes: Cell<usize>,
    ended: Cell<bool>,
    filled: Notify,
    drained: Notify,
}

struct Chunk {
    read_at: Instant,
    bytes: Vec<u8>,
    written: usize,
}

impl Queue {
    pub(crate) fn push(&self, bytes: &[u8]) {
        let chunk = Chunk { read_at: Instant::now(), bytes: bytes.to_vec(), written: 0 };
        self.chunks.borrow_mut().push_back(chunk);
        self.bytes.set(self.bytes.get() + bytes.len());
        self.filled.notify_one();
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.filled.notify_one();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// When the first chunk was read.
    pub(crate) fn front_read_at(&self) -> Option<Instant> {
        self.chunks.borrow().front().map(|chunk| chunk.read_at)
    }

    /// Shows what is left of the first chunk.
    pub(crate) fn with_front<T>(&self, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.chunks.borrow().front().map(|chunk| look(&chunk.bytes[chunk.written..]))
    }

    /// So many bytes of the first chunk are written.
    pub(crate) fn advance(&self, count: usize) {
        let mut chunks = self.chunks.borrow_mut();
        if let Some(chunk) = chunks.front_mut() {
            chunk.written += count;
            if chunk.written >= chunk.bytes.len() {
                chunks.pop_front();
            }
        }
        self.bytes.set(self.bytes.get() - count);
        self.drained.notify_one();
    }

    /// Forgets all chunks and answers how many bytes that was.
    pub(crate) fn clear(&self) -> usize {
        self.chunks.borrow_mut().clear();
        self.drained.notify_one();
        self.bytes.take()
    }

    /// Waits until a chunk or the end was added.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Waits until there is room for more.
    pub(crate) async fn room(&self) {
        while self.bytes.get() >= CAPACITY {
            self.drained.notified().await;
        }
    }
}
