//! How many requests wait for a hold to end.

use std::sync::atomic::{AtomicUsize, Ordering};

/// One of them, until dropped.
pub(crate) struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    /// `None` when there are `max` already.
    pub(crate) fn join(number: &'a AtomicUsize, max: usize) -> Option<Self> {
        let more = |number: usize| (number < max).then_some(number + 1);
        number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self(number))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
