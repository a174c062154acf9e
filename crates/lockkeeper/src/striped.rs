//! One value for each of a few groups of threads, so that threads do not fight for a cache line.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// So many stripes at most: each costs memory.
const MOST: usize = 16;

/// As many values as there may be threads at work, or [`MOST`]. A thread always meets the same one; others may as well.
#[derive(Debug)]
pub(crate) struct Striped<T>(Box<[Padded<T>]>);

/// Two lines apart: processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

impl<T> Striped<T> {
    pub(crate) fn new(mut value: impl FnMut() -> T) -> Self {
        Self((0..stripes()).map(|_| Padded(value())).collect())
    }

    /// This thread's.
    pub(crate) fn mine(&self) -> &T {
        &self.0[number() % self.0.len()].0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &padded.0)
    }
}

impl<T: Default> Default for Striped<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

/// Twice as many as processors, because threads that work may have numbers that others lie between.
fn stripes() -> usize {
    static STRIPES: AtomicUsize = AtomicUsize::new(0);
    match STRIPES.load(Ordering::Relaxed) {
        0 => {
            let processors = available_parallelism().map_or(1, usize::from);
            let stripes = (2 * processors).next_power_of_two().min(MOST);
            STRIPES.store(stripes, Ordering::Relaxed);
            stripes
        }
        stripes => stripes,
    }
}

/// Threads are numbered as they come.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_thread_meets_the_same_stripe_and_nothing_is_lost_among_threads() {
        let sums = Striped::<AtomicU64>::default();
        assert!(std::ptr::eq(sums.mine(), sums.mine()) && sums.iter().count() == sums.len());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| _ = sums.mine().fetch_add(1, Ordering::Relaxed)));
            }
        });
        assert_eq!(sums.iter().map(|sum| sum.load(Ordering::Relaxed)).sum::<u64>(), 8000);
    }
}
