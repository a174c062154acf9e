//! Waiting until a call is allowed: one line per subject, first come, first served.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::{Clock, Error, Keys};
use parking_lot::Mutex as Short;
use tokio::sync::Mutex;

use super::verdict::Verdict;
use crate::clock::sleep_until;

/// The lines of one limiter.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Short<HashMap<Keys, Weak<Mutex<()>>>>,
}

/// Lines without anybody are cleared away when there are so many.
const SWEEP_AT: usize = 1024;

impl Lines {
    fn of(&self, keys: &Keys) -> Arc<Mutex<()>> {
        let mut lines = self.lines.lock();
        if let Some(line) = lines.get(keys).and_then(Weak::upgrade) {
            return line;
        }
        if lines.len() >= SWEEP_AT && lines.len().is_power_of_two() {
            lines.retain(|_, line| line.strong_count() > 0);
        }
        let line = Arc::default();
        lines.insert(keys.clone(), Arc::downgrade(&line));
        line
    }

    /// Checks until it is allowed, in the order in which callers came, or until it cannot be any more before `limit` has
    /// passed. Only the front of a line asks; and once, out of turn, who does not become the front in time.
    pub(super) async fn wait<F: Future<Output = Result<Verdict, Error>>>(
        &self,
        keys: &Keys,
        limit: Duration,
        clock: &dyn Clock,
        check: impl Fn() -> F,
    ) -> Result<Verdict, Error> {
        let ends = clock.uptime().after(limit);
        let line = self.of(keys);
        // First come, first served; who goes away leaves the line.
        let front = tokio::select! {
            biased;
            front = line.lock() => Some(front),
            () = sleep_until(clock, ends) => None,
        };
        loop {
            let verdict = check().await?;
            let Some(retry_after) = verdict.retry_after() else { return Ok(verdict) };
            let again = clock.uptime().after(retry_after);
            if front.is_none() || again > ends {
                return Ok(verdict);
            }
            sleep_until(clock, again).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{Key, Prefix};

    use super::*;

    fn keys(number: usize) -> Keys {
        Key::new(&Prefix::empty(), format!("{number}")).unwrap().into()
    }

    #[test]
    fn lines_without_anybody_are_cleared_away_and_the_others_stay() {
        let lines = Lines::default();
        let line = lines.of(&keys(0));
        for number in 1..=10 * SWEEP_AT {
            drop(lines.of(&keys(number)));
            assert!(lines.lines.lock().len() <= SWEEP_AT, "{number}");
        }
        assert!(Arc::ptr_eq(&line, &lines.of(&keys(0))));
    }
}
