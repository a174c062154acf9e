//! Who waits for a lock, for people and for programs.

use lockkeeper::Waiter;
use serde::Serialize;

use crate::common;

/// A keeper whose callers wait, as JSON shows it.
#[derive(Debug, Serialize)]
pub(crate) struct WaiterRow {
    keeper: String,
    count: u32,
}

/// For JSON.
pub(crate) fn rows(waiters: &[Waiter]) -> Vec<WaiterRow> {
    let row = |waiter: &Waiter| WaiterRow {
        keeper: common::text_of(waiter.keeper.as_bytes()),
        count: waiter.count,
    };
    waiters.iter().map(row).collect()
}

/// A line for each keeper, the busiest first, at most so many; what is left out is said.
pub(crate) fn lines(waiters: &[Waiter], most: usize) -> Vec<String> {
    let mut waiters: Vec<&Waiter> = waiters.iter().collect();
    waiters.sort_by_key(|waiter| std::cmp::Reverse(waiter.count));
    let shown = waiters.iter().take(most).map(|waiter| format!("{} in {}", waiter.count, waiter.keeper));
    let more = waiters.len().saturating_sub(most);
    shown.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

#[cfg(test)]
mod tests {
    use lockkeeper::KeeperName;

    use super::*;

    #[test]
    fn the_busiest_come_first_and_what_is_left_out_is_counted() {
        let waiter = |name, count| Waiter { keeper: KeeperName::new(name), count };
        let waiters = [waiter("a:1", 1), waiter("b:2", 70), waiter("c:3", 5)];
        assert_eq!(lines(&waiters, 2), ["70 in b:2", "5 in c:3", "and 1 more"]);
        assert_eq!(lines(&waiters[..1], 2), ["1 in a:1"]);
    }
}
