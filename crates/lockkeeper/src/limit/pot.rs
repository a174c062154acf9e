//! Tokens that threads take from without fighting for them: most lie in pockets, the rest in a pot.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::striped::Striped;

/// A pocket takes at least so many at once, where there are so many.
const LEAST_MOVE: u64 = 16;

/// Every token is in the pot, in one pocket, or in the hands of a thread that moves it: none is ever spent twice.
#[derive(Debug, Default)]
pub(super) struct Pot {
    rest: AtomicU64,
    pockets: Striped<Pocket>,
}

#[derive(Debug, Default)]
struct Pocket {
    tokens: AtomicU64,
    /// How often somebody took from it since that was last counted.
    spent: AtomicU64,
}

impl Pot {
    /// How many there are, apart from those that are being moved.
    pub(super) fn tokens(&self) -> u64 {
        let pockets = self.pockets.iter().map(|pocket| pocket.tokens.load(Ordering::Acquire));
        self.rest.load(Ordering::Acquire) + pockets.sum::<u64>()
    }

    pub(super) fn put(&self, tokens: u64) {
        self.rest.fetch_add(tokens, Ordering::AcqRel);
    }

    /// Takes so many; answers how many are left for this thread to take at once. `None`: there are not enough.
    pub(super) fn spend(&self, cost: u64) -> Option<u64> {
        let pocket = self.pockets.mine();
        let left = match take(&pocket.tokens, cost, cost) {
            Some(before) => before - cost,
            None => self.fill(pocket, cost).or_else(|| self.gather().then(|| self.fill(pocket, cost))?)?,
        };
        pocket.spent.fetch_add(1, Ordering::Relaxed);
        Some(left + self.rest.load(Ordering::Relaxed))
    }

    /// Takes `cost` from the pot, and some more into the pocket.
    fn fill(&self, pocket: &Pocket, cost: u64) -> Option<u64> {
        let share = self.rest.load(Ordering::Relaxed) / (2 * self.pockets.len() as u64);
        let most = share.max(LEAST_MOVE).max(cost);
        let taken = take(&self.rest, cost, most)?.min(most);
        Some(pocket.tokens.fetch_add(taken - cost, Ordering::AcqRel) + taken - cost)
    }

    /// Empties all pockets into the pot. False: there was nothing in them.
    fn gather(&self) -> bool {
        let found = self.pockets.iter().map(|pocket| empty(&pocket.tokens)).sum();
        self.put(found);
        found > 0
    }

    /// Takes all there is.
    pub(super) fn empty(&self) -> u64 {
        self.gather();
        empty(&self.rest)
    }

    /// How often something was taken since this was last asked.
    pub(super) fn spent(&self) -> u64 {
        self.pockets.iter().map(|pocket| empty(&pocket.spent)).sum()
    }
}

/// Takes as many as there are, from `least` to `most`; answers how many there were.
fn take(tokens: &AtomicU64, least: u64, most: u64) -> Option<u64> {
    let less = |there: u64| (there >= least).then(|| there - there.min(most));
    tokens.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).ok()
}

/// Where there is nothing, nothing is written.
fn empty(count: &AtomicU64) -> u64 {
    if count.load(Ordering::Acquire) == 0 { 0 } else { count.swap(0, Ordering::AcqRel) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_can_be_spent_and_no_more() {
        let pot = Pot::default();
        assert_eq!(pot.spend(1), None);
        pot.put(1000);
        assert_eq!(pot.spend(1), Some(999));
        assert_eq!((pot.spend(1000), pot.tokens()), (None, 999));
        assert_eq!((pot.spend(990), pot.spend(10), pot.spend(9)), (Some(9), None, Some(0)));
        assert_eq!((pot.spent(), pot.spent(), pot.tokens()), (3, 0, 0));
    }

    #[test]
    fn what_lies_in_the_pocket_of_another_thread_is_found() {
        let pot = Pot::default();
        pot.put(100);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert!(pot.spend(1).is_some()));
            }
        });
        assert_eq!(pot.spend(96), Some(0));
        pot.put(40);
        assert!(pot.spend(1).is_some());
        assert_eq!((pot.empty(), pot.tokens(), pot.spend(1)), (39, 0, None));
    }

    #[test]
    fn threads_together_spend_each_token_once() {
        let pot = Pot::default();
        pot.put(100_000);
        let spend = || (0..).take_while(|_| pot.spend(1).is_some()).count() as u64;
        let spent: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(spend)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(spent + pot.tokens(), 100_000);
        assert_eq!(pot.spent(), spent);
    }
}
