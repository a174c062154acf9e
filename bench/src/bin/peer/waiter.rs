//! One waiter: acquire, count, hold, release, again and again; and what it saw.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;

use crate::arm::Lock;
use crate::counter::Counter;
use crate::monotonic;

/// What all waiters of this process have in common. Moments are nanoseconds of the monotonic clock.
pub(crate) struct Terms {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) hold: Duration,
    pub(crate) pause: Duration,
    pub(crate) counter: Counter,
    /// The fence of the last holder in this process.
    pub(crate) last_fence: AtomicU64,
    /// How many fences were not greater than the one before.
    pub(crate) fence_disorder: AtomicU64,
}

impl Terms {
    /// Called by the holder alone, so in the order of acquisition.
    fn note_fence(&self, fence: u64) {
        if self.last_fence.swap(fence, Relaxed) >= fence {
            self.fence_disorder.fetch_add(1, Relaxed);
        }
    }

    /// The section's work: nothing but the lock keeps another from doing it at the same time.
    async fn hold(&self) -> Result<()> {
        let seen = self.counter.read()?;
        if !self.hold.is_zero() {
            let hold = self.hold;
            // More exact than the runtime's timer, which counts in whole milliseconds.
            tokio::task::spawn_blocking(move || std::thread::sleep(hold)).await?;
        }
        self.counter.write(seen + 1)
    }
}

/// One critical section.
struct Section {
    began: u64,
    acquired: u64,
    leaving: u64,
    left: u64,
    fence: u64,
}

pub(crate) struct Waiter<L> {
    number: usize,
    lock: L,
    terms: Arc<Terms>,
    sections: Vec<Section>,
    /// Since when it waits, or waited until the end.
    waiting_since: Option<u64>,
    pub(crate) bad_releases: u64,
    /// It was still waiting long after the end.
    pub(crate) given_up: bool,
}

impl<L: Lock> Waiter<L> {
    pub(crate) fn new(number: usize, lock: L, terms: Arc<Terms>) -> Self {
        Self {
            number,
            lock,
            terms,
            sections: Vec::new(),
            waiting_since: None,
            bad_releases: 0,
            given_up: false,
        }
    }

    /// Until the end, and no longer than until `afterwards` after it.
    pub(crate) async fn run_until(mut self, afterwards: Duration) -> Result<Self> {
        let limit = until(self.terms.end) + afterwards;
        match tokio::time::timeout(limit, self.run()).await {
            Ok(result) => result?,
            Err(_) => self.given_up = true,
        }
        Ok(self)
    }

    async fn run(&mut self) -> Result<()> {
        tokio::time::sleep(until(self.terms.start)).await;
        while self.section().await? {
            if !self.terms.pause.is_zero() {
                tokio::time::sleep(self.terms.pause).await;
            }
        }
        Ok(())
    }

    /// False: the time is over.
    async fn section(&mut self) -> Result<bool> {
        let began = monotonic::now();
        if began >= self.terms.end {
            return Ok(false);
        }
        self.waiting_since = Some(began);
        let held = self.lock.acquire().await?;
        let acquired = monotonic::now();
        if acquired >= self.terms.end {
            self.lock.release(held).await;
            return Ok(false);
        }
        self.waiting_since = None;
        let fence = L::fence(&held);
        if let Some(fence) = fence {
            self.terms.note_fence(fence);
        }
        self.terms.hold().await?;
        let leaving = monotonic::now();
        self.bad_releases += u64::from(!self.lock.release(held).await);
        self.sections.push(Section {
            began,
            acquired,
            leaving,
            left: monotonic::now(),
            fence: fence.unwrap_or(0),
        });
        Ok(true)
    }

    /// Its lines of the `out` file.
    pub(crate) fn write(&self, text: &mut String, with_fences: bool) -> std::fmt::Result {
        for Section { began, acquired, leaving, left, fence } in &self.sections {
            write!(text, "S {} {began} {acquired} {leaving} {left}", self.number)?;
            if with_fences {
                write!(text, " {fence}")?;
            }
            text.push('\n');
        }
        match self.waiting_since {
            Some(since) => writeln!(text, "P {} {since}", self.number),
            None => Ok(()),
        }
    }
}

/// How long it is until this moment.
fn until(moment: u64) -> Duration {
    Duration::from_nanos(moment.saturating_sub(monotonic::now()))
}
