//! What a worker has seen.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::books::Fate;

/// Counts, while the worker works.
#[derive(Debug, Default)]
pub struct Seen {
    written: AtomicU64,
    duplicates: AtomicU64,
    refused: AtomicU64,
    returned: AtomicU64,
    retried: AtomicU64,
    taken_over: AtomicU64,
    too_late: AtomicU64,
}

/// What a worker has seen up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tickets that became orders.
    pub written: u64,
    /// Messages whose order was there already.
    pub duplicates: u64,
    /// Messages whose ticket became no order.
    pub refused: u64,
    /// Units that went back for that, or were withheld.
    pub returned: u64,
    /// Rounds that failed, to be tried again.
    pub retried: u64,
    /// Messages that another worker had taken, and had not finished in time.
    pub taken_over: u64,
    /// Messages that were in its hands while a part of their sale was rebuilt. What the store still has of them is taken again.
    pub too_late: u64,
}

impl Seen {
    /// Up to now.
    pub fn tally(&self) -> Tally {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            written: count(&self.written),
            duplicates: count(&self.duplicates),
            refused: count(&self.refused),
            returned: count(&self.returned),
            retried: count(&self.retried),
            taken_over: count(&self.taken_over),
            too_late: count(&self.too_late),
        }
    }

    pub(super) fn met(&self, fate: &Fate) {
        add(
            match fate {
                Fate::Written => &self.written,
                Fate::Duplicate => &self.duplicates,
                Fate::Refused { .. } => &self.refused,
            },
            1,
        );
    }

    pub(super) fn returned(&self) {
        add(&self.returned, 1);
    }

    pub(super) fn retried(&self) {
        add(&self.retried, 1);
    }

    pub(super) fn came_too_late(&self, many: usize) {
        add(&self.too_late, many as u64);
    }

    pub(super) fn took_over(&self, many: usize) {
        add(&self.taken_over, many as u64);
    }
}

fn add(counter: &AtomicU64, many: u64) {
    counter.fetch_add(many, Ordering::Relaxed);
}
