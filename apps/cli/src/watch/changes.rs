//! How often a lock changes hands, as far as looking at it now and then can tell.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lockkeeper::core::lock::Inspection;

/// The rate is that of the last looks, up to so many.
const WINDOW: usize = 60;

/// What changed between looks.
#[derive(Debug, Default)]
pub(super) struct Changes {
    total: u64,
    /// The last holder's id.
    holder: Option<String>,
    fence: Option<u64>,
    /// When was looked, and the total by then.
    looks: VecDeque<(Instant, u64)>,
}

impl Changes {
    /// One more look. Another holder, or a greater fence, means that somebody took the lock since the last one, or was
    /// removed from it by force; how often is not to be seen.
    pub(super) fn saw(&mut self, seen: &Inspection, now: Instant) {
        let holder = seen.holder.as_ref().map(lockkeeper::Holder::id);
        let fence = seen.fence.map(|fence| fence.get());
        let is_other = holder.is_some() && holder != self.holder;
        let is_greater = fence.is_some() && fence > self.fence;
        if !self.looks.is_empty() && (is_other || is_greater) {
            self.total += 1;
        }
        self.holder = holder.or_else(|| self.holder.take());
        self.fence = self.fence.max(fence);
        if self.looks.len() == WINDOW {
            self.looks.pop_front();
        }
        self.looks.push_back((now, self.total));
    }

    /// All since the first look.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Per second, and over which time. `None` before the second look.
    pub(super) fn rate(&self) -> Option<(f64, Duration)> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let time = last.0.duration_since(first.0);
        (!time.is_zero()).then(|| ((last.1 - first.1) as f64 / time.as_secs_f64(), time))
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper::{Fence, Holder};

    use super::*;

    fn looks(seen: &[(Option<&str>, Option<u64>)]) -> Changes {
        let (mut changes, start) = (Changes::default(), Instant::now());
        for (at, (holder, fence)) in (0..).zip(seen) {
            let seen = Inspection {
                holder: holder.map(|token| Holder::new(token.as_bytes(), token.len() as u64)),
                remaining: None,
                fence: fence.map(Fence::new),
                waiters: vec![],
                wrong_type: false,
            };
            changes.saw(&seen, start + Duration::from_millis(500) * at);
        }
        changes
    }

    #[test]
    fn another_holder_or_a_greater_fence_is_one_change() {
        let total = |seen: &[_]| looks(seen).total();
        let (a, b) = (Some("a"), Some("b"));
        assert_eq!(total(&[(a, Some(1)), (a, Some(1)), (a, Some(1))]), 0, "a renewal changes nothing");
        assert_eq!(total(&[(a, Some(1)), (b, Some(9)), (b, Some(9))]), 1, "however much greater the fence");
        assert_eq!(total(&[(a, Some(1)), (None, Some(1)), (b, Some(2))]), 1, "free in between");
        assert_eq!(total(&[(None, Some(1)), (None, Some(2))]), 1, "taken and released in between");
        assert_eq!(total(&[(None, None), (None, None)]), 0);
        assert_eq!(total(&[(a, None), (b, None), (a, None)]), 2, "locks of other programs have no fence");
    }

    #[test]
    fn the_rate_is_that_of_the_last_looks() {
        assert_eq!(looks(&[(None, None)]).rate(), None);
        let (rate, time) = looks(&[(Some("a"), None), (Some("b"), None), (Some("b"), None)]).rate().unwrap();
        assert_eq!((rate, time), (1.0, Duration::from_secs(1)));
        let many: Vec<_> = (0..200).map(|at| (Some(if at < 100 { "a" } else { "b" }), None)).collect();
        assert_eq!(looks(&many).rate().unwrap().0, 0.0, "the change is long ago");
    }
}
