//! Exclusion inside this process: fair mutexes by key, for locks that may be degraded.
//!
//! Several keys are taken in their byte order, so nobody waits in a circle; locks that share a key exclude each other.
//! Dropping a [`LocalHold`], or a future that waits for one, lets go and forgets what nobody uses.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use lockkeeper_core::lock::{Holder, OwnerToken};
use lockkeeper_core::{Error, ErrorKind, Key, Uptime};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::builder::Lock;
use super::outcome::Busy;
use crate::clock::sleep_until;
use crate::keeper::Inner;

/// The most keys that are held or waited for inside one keeper.
const MOST_KEYS: usize = 100_000;

/// The mutexes of a keeper that are in use.
#[derive(Default)]
pub(crate) struct Locals {
    table: Mutex<HashMap<Key, Arc<Slot>>>,
    /// Locks that are held inside this process only.
    pub(crate) degraded: AtomicUsize,
}

#[derive(Default)]
struct Slot {
    mutex: Arc<tokio::sync::Mutex<()>>,
    /// For who finds it busy.
    holder: Mutex<Option<Holder>>,
}

/// The keys of a lock, held inside this process.
pub(super) struct LocalHold(Vec<Claim>);

/// A key that is waited for or held.
struct Claim {
    inner: Arc<Inner>,
    key: Key,
    slot: Arc<Slot>,
    guard: Option<OwnedMutexGuard<()>>,
}

/// Waits for all keys of `lock`, at most until `ends`.
pub(super) async fn take(lock: &Lock, ends: Option<Uptime>) -> Result<Result<LocalHold, Busy>, Error> {
    let mut hold = LocalHold(Vec::with_capacity(lock.keys.as_slice().len()));
    for key in lock.keys.as_slice() {
        let mut claim = Claim::new(&lock.inner, key)?;
        if !claim.wait(ends).await {
            return Ok(Err(claim.busy(lock)));
        }
        hold.0.push(claim);
    }
    hold.show(&myself(lock));
    Ok(Ok(hold))
}

impl LocalHold {
    /// Who holds it, for who finds it busy.
    pub(super) fn show(&self, holder: &Holder) {
        for claim in &self.0 {
            *claim.slot.holder.lock() = Some(holder.clone());
        }
    }
}

impl Claim {
    fn new(inner: &Arc<Inner>, key: &Key) -> Result<Self, Error> {
        let mut table = inner.locals.table.lock();
        if table.len() >= MOST_KEYS && !table.contains_key(key) {
            let detail = format!("{MOST_KEYS} locks are held or waited for inside this process already");
            return Err(Error::new(ErrorKind::Unsupported, "acquire", detail).with_key(key));
        }
        let slot = table.entry(key.clone()).or_default().clone();
        Ok(Self { inner: inner.clone(), key: key.clone(), slot, guard: None })
    }

    /// False if `ends` came first. A free one is taken even if it has passed.
    async fn wait(&mut self, ends: Option<Uptime>) -> bool {
        let clock = &*self.inner.clock;
        let limit = async {
            match ends {
                Some(ends) => sleep_until(clock, ends).await,
                None => pending().await,
            }
        };
        self.guard = tokio::select! {
            biased;
            guard = self.slot.mutex.clone().lock_owned() => Some(guard),
            () = limit => None,
        };
        self.guard.is_some()
    }

    fn busy(&self, lock: &Lock) -> Busy {
        let holder = self.slot.holder.lock().clone();
        Busy { key: self.key.clone(), holder: holder.unwrap_or_else(|| myself(lock)), remaining: None }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let slot = std::mem::take(&mut self.slot);
        if self.guard.is_some() {
            *slot.holder.lock() = None;
            self.guard = None;
        }
        let mut table = self.inner.locals.table.lock();
        // While the table is locked, so that the last one of two who go at once sees that it is the last.
        drop(slot);
        if table.get(&self.key).is_some_and(|left| Arc::strong_count(left) <= 1) {
            table.remove(&self.key);
        }
    }
}

/// This process, as a holder. What stands in the secret's place is the right to nothing.
fn myself(lock: &Lock) -> Holder {
    let identity = lock.inner.identity.labelled_or_as_is(lock.label.as_deref());
    OwnerToken::generate([0; 16], &identity, lock.inner.clock.wall()).holder()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_testkit::drops::poll_times;

    use super::*;
    use crate::keeper::Keeper;

    fn in_use(keeper: &Keeper) -> usize {
        keeper.inner.locals.table.lock().len()
    }

    fn locks(keeper: &Keeper) -> [Lock; 2] {
        [keeper.lock_all(["a", "b"]).unwrap(), keeper.lock_all(["b", "c"]).unwrap()]
    }

    #[tokio::test]
    async fn what_shares_a_key_excludes_itself_and_what_is_unused_is_forgotten() {
        let keeper = Keeper::connect("memory://").await.unwrap();
        let [first, second] = locks(&keeper);
        let now = Some(keeper.inner.clock.uptime());
        let held = take(&first, now).await.unwrap().unwrap();
        let busy = take(&second, now).await.unwrap().err().unwrap();
        assert_eq!(busy.key.name(), b"b");
        assert_eq!(in_use(&keeper), 2, "c was not reached, and b is still held");
        drop(held);
        assert_eq!(in_use(&keeper), 0);
        assert!(take(&second, now).await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_future_that_is_dropped_while_it_waits_leaves_nothing() {
        let keeper = Keeper::connect("memory://").await.unwrap();
        let [first, second] = locks(&keeper);
        let held = take(&first, None).await.unwrap().unwrap();
        assert!(poll_times(take(&second, None), 1).await.is_none());
        assert_eq!(in_use(&keeper), 2);
        drop(held);
        assert_eq!(in_use(&keeper), 0);
    }

    #[tokio::test]
    async fn waiters_are_served_in_their_order() {
        let keeper = Keeper::connect("memory://").await.unwrap();
        let lock = keeper.lock("a").unwrap();
        let order = Mutex::new(Vec::new());
        let held = take(&lock, None).await.unwrap().unwrap();
        let waiter = async |number: u32| {
            let _hold = take(&lock, None).await.unwrap().unwrap();
            order.lock().push(number);
            tokio::task::yield_now().await;
        };
        let releaser = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(held);
        };
        tokio::join!(waiter(0), waiter(1), waiter(2), releaser);
        assert_eq!(*order.lock(), [0, 1, 2]);
        assert_eq!(in_use(&keeper), 0);
    }
}
