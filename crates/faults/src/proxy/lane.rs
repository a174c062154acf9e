//! One direction of one connection: a reader that fills a queue and a writer that empties it.
//!
//! Everything runs on one thread, and between a look at the rules and the system call that follows there is
//! no `await`. So once a verb has changed the rules, not one more byte passes under the old ones.

use std::cell::Cell;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::queue::Queue;
use super::rules::{Direction, DropReply, Rules};
use super::stats::{LaneCounters, add, subtract};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// Why a connection ends although neither side has ended it.
#[derive(Debug)]
pub(crate) struct Close;

/// The lane; its connection runs [`Lane::read`] and [`Lane::write`] side by side.
pub(crate) struct Lane<'a> {
    pub(crate) direction: Direction,
    pub(crate) from: &'a TcpStream,
    pub(crate) to: &'a TcpStream,
    pub(crate) rules: &'a watch::Sender<Rules>,
    pub(crate) counters: &'a LaneCounters,
    /// Set once a rule threw away bytes of the connection: what follows would be taken for something else.
    pub(crate) lossy: &'a Cell<bool>,
    pub(crate) queue: Queue,
}

impl Lane<'_> {
    /// Reads until the sender ends, a failed connection being an end like any other.
    pub(crate) async fn read(&self) -> Result<(), Close> {
        let mut buffer = vec![0; CHUNK];
        loop {
            self.queue.room().await;
            if self.from.readable().await.is_err() {
                break;
            }
            match self.from.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => self.take(&buffer[..count])?,
                Err(error) if is_transient(&error) => {}
                Err(_) => break,
            }
        }
        self.queue.end();
        Ok(())
    }

    /// Writes what was read, when the rules allow it, until the sender has ended.
    pub(crate) async fn write(&self) -> Result<(), Close> {
        let mut rules = self.rules.subscribe();
        loop {
            let now = *rules.borrow_and_update();
            if now.black_hole && self.throw_away() > 0 {
                self.lossy.set(true);
            }
            match self.next_step(&now) {
                Step::Wait => tokio::select! {
                    () = self.queue.filled() => {}
                    changed = rules.changed() => changed.map_err(|_| Close)?,
                },
                Step::Sleep(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    changed = rules.changed() => changed.map_err(|_| Close)?,
                },
                Step::Write => tokio::select! {
                    ready = self.to.writable() => self.write_some(ready.is_ok()),
                    changed = rules.changed() => changed.map_err(|_| Close)?,
                },
                Step::End => {
                    // A receiver that is gone needs no telling.
                    let _ = rustix::net::shutdown(self.to, rustix::net::Shutdown::Write);
                    return Ok(());
                }
            }
        }
    }

    /// Decides on what has just been read: it is kept for the writer, or thrown away.
    fn take(&self, bytes: &[u8]) -> Result<(), Close> {
        match self.fate() {
            None => {
                self.queue.push(bytes);
                add(&self.counters.kept, bytes.len());
            }
            Some(how) => {
                self.lossy.set(true);
                add(&self.counters.dropped, bytes.len());
                if how == DropReply::ThenClose {
                    return Err(Close);
                }
            }
        }
        Ok(())
    }

    /// Whether and how what has just been read is thrown away.
    fn fate(&self) -> Option<DropReply> {
        let now = *self.rules.borrow();
        if now.black_hole {
            return Some(DropReply::Silently);
        }
        if self.direction == Direction::Requests {
            return None;
        }
        if let Some(how) = now.drop_replies.or(now.drop_next) {
            if now.drop_replies.is_none() {
                self.rules.send_modify(|rules| rules.drop_next = None);
            }
            return Some(how);
        }
        self.lossy.get().then_some(DropReply::Silently)
    }

    /// Throws away what is kept, and answers how many bytes that was.
    fn throw_away(&self) -> usize {
        let count = self.queue.clear();
        subtract(&self.counters.kept, count);
        add(&self.counters.dropped, count);
        count
    }

    fn next_step(&self, now: &Rules) -> Step {
        if now.black_hole || now.holds(self.direction) {
            return Step::Wait;
        }
        let Some(read_at) = self.queue.front_read_at() else {
            return if self.queue.has_ended() { Step::End } else { Step::Wait };
        };
        match read_at.checked_add(now.delay) {
            Some(due) if due <= Instant::now() => Step::Write,
            Some(due) => Step::Sleep(due),
            // A delay beyond all time.
            None => Step::Wait,
        }
    }

    /// Writes as much as the receiver takes. One that takes nothing any more loses what is for it, but the
    /// sender is still read: its requests, or its end, are to arrive on the other side.
    fn write_some(&self, ready: bool) {
        // The rules may have changed in the very moment in which the socket became writable.
        let now = *self.rules.borrow();
        if !matches!(self.next_step(&now), Step::Write) {
            return;
        }
        let result = self.queue.with_front(|bytes| self.to.try_write(bytes));
        match result {
            Some(Ok(count)) if ready => {
                self.queue.advance(count);
                subtract(&self.counters.kept, count);
                add(&self.counters.forwarded, count);
            }
            Some(Err(error)) if ready && is_transient(&error) => {}
            _ => {
                self.throw_away();
            }
        }
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.throw_away();
    }
}

/// What the writer does next.
enum Step {
    /// Wait for bytes or for other rules.
    Wait,
    /// Wait until the first chunk is due.
    Sleep(Instant),
    /// Write as much as the receiver takes.
    Write,
    /// Pass on the end.
    End,
}

fn is_transient(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}
