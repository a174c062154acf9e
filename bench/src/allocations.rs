//! An allocator that counts while it is asked to, for the whole process.
//!
//! At other times it costs one relaxed load per call, the same for both arms of a comparison.

#![expect(
    unsafe_code,
    reason = "an allocator cannot be written without; every call goes to the system's as it came"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

pub(crate) struct Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

/// What happened between [`start`] and [`stop`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    /// Allocations and reallocations.
    pub(crate) calls: u64,
    /// By how much what is allocated has grown.
    pub(crate) grown_bytes: i64,
}

pub(crate) fn start() {
    CALLS.store(0, Relaxed);
    LIVE_BYTES.store(0, Relaxed);
    COUNTING.store(true, Relaxed);
}

pub(crate) fn stop() -> Count {
    COUNTING.store(false, Relaxed);
    Count { calls: CALLS.load(Relaxed), grown_bytes: LIVE_BYTES.load(Relaxed) }
}

fn note(calls: u64, freed: usize, taken: usize) {
    if COUNTING.load(Relaxed) {
        CALLS.fetch_add(calls, Relaxed);
        // A layout is never larger than `isize::MAX`.
        LIVE_BYTES.fetch_add(taken as i64 - freed as i64, Relaxed);
    }
}

// SAFETY: every method forwards its arguments unchanged to the system allocator, whose contract is the same, and
// returns what it returned. Counting touches atomics alone: it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, 0, layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, 0, layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, layout.size(), 0);
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(1, layout.size(), new_size);
        // SAFETY: the caller keeps the contract of `realloc`; the pointer came from `System`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}
