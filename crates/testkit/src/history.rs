//! Histories of critical sections: did two ever overlap, does the unprotected counter agree, did fences grow?

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper::core::{Clock, Uptime};
use lockkeeper::{Fence, LockGuard, SystemClock};

/// One critical section, from after the acquire returned to before the release was called.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Entered. The monotonic clock is one for all processes of a machine.
    pub entered: Uptime,
    /// Left.
    pub left: Uptime,
    /// The holder's fence.
    pub fence: Fence,
}

/// A counter that is read and written in two steps, so that two at once lose an update.
#[derive(Debug, Default)]
pub struct Unprotected(AtomicU64);

impl Unprotected {
    /// Read, let others run, write.
    pub async fn increment(&self) {
        let seen = self.0.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.0.store(seen + 1, Ordering::SeqCst);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Runs one section under `guard` on `counter`.
pub async fn section(guard: &LockGuard, counter: &Unprotected) -> Section {
    let entered = SystemClock.uptime();
    counter.increment().await;
    Section { entered, left: SystemClock.uptime(), fence: guard.fence().expect("a store that fences") }
}

/// Checks a whole history by interval overlap, by the counter, and by fence order.
///
/// # Errors
/// What was violated.
pub fn check(sections: Vec<Section>, counted: u64) -> Result<(), String> {
    let count = sections.len() as u64;
    in_order(sections)?;
    if counted != count {
        return Err(format!("{count} sections, but the counter says {counted}"));
    }
    Ok(())
}

/// Checks a history by interval overlap and by fence order.
///
/// # Errors
/// What was violated.
pub fn in_order(mut sections: Vec<Section>) -> Result<(), String> {
    sections.sort_by_key(|section| (section.entered, section.left));
    apart(sections.iter().map(|section| (section.entered, section.left)))?;
    for pair in sections.windows(2) {
        let (one, next) = (pair[0], pair[1]);
        if next.fence <= one.fence {
            return Err(format!("the fence did not grow: {one:?}, then {next:?}"));
        }
    }
    Ok(())
}

/// Checks that of these intervals, in the order of their holders, each had ended when the next began.
///
/// # Errors
/// The first two that overlap.
pub fn apart<T: Copy + Debug + Ord>(intervals: impl IntoIterator<Item = (T, T)>) -> Result<(), String> {
    let mut last: Option<(T, T)> = None;
    for next in intervals {
        if let Some(one) = last.filter(|one| next.0 < one.1) {
            return Err(format!("two holders at once: {one:?} and {next:?}"));
        }
        last = Some(next);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(entered: u64, left: u64, fence: u64) -> Section {
        Section {
            entered: Uptime::from_micros(entered),
            left: Uptime::from_micros(left),
            fence: Fence::new(fence),
        }
    }

    #[test]
    fn each_kind_of_violation_is_found() {
        assert!(check(vec![section(5, 6, 2), section(1, 4, 1)], 2).is_ok());
        assert!(check(vec![section(1, 4, 1), section(3, 6, 2)], 2).unwrap_err().contains("two holders"));
        assert!(check(vec![section(1, 4, 2), section(5, 6, 2)], 2).unwrap_err().contains("fence"));
        assert!(check(vec![section(1, 4, 1)], 0).unwrap_err().contains("counter"));
    }
}
