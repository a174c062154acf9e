//! Where the shards of a sale live: on the keeper's server, or inside this process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Keeper, SystemClock};
use lockkeeper_core::{
    Answer, Apply, Clock, Decision, Error, ErrorKind, Key, Keys, State, Timestamp, decide_within,
};
use lockkeeper_redis::RedisStore;
use lockkeeper_redis::port::Port;
use parking_lot::Mutex;

use super::shard::Shard;

/// A store of shards. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct SaleStore(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Memory(Arc<Memory>),
    Redis(RedisStore),
}

/// The same decisions under a mutex.
#[derive(Debug)]
struct Memory {
    clock: Arc<dyn Clock>,
    shards: Mutex<HashMap<Key, Shard>>,
}

impl SaleStore {
    /// The keeper's server, or a new store inside this process where the keeper has none.
    pub fn of(keeper: &Keeper) -> Self {
        keeper
            .redis_store()
            .map_or_else(|| Self::memory(Arc::new(SystemClock)), |store| Self::redis(store.clone()))
    }

    /// An empty store inside this process. Its server's clock is this one's wall.
    pub fn memory(clock: Arc<dyn Clock>) -> Self {
        Self(Kind::Memory(Arc::new(Memory { clock, shards: Mutex::default() })))
    }

    /// On this server.
    pub fn redis(store: RedisStore) -> Self {
        Self(Kind::Redis(store))
    }

    /// The store's time now, as far as is known.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::Memory(memory) => memory.clock.wall(),
            Kind::Redis(store) => store.server_now(),
        }
    }

    pub(crate) fn server(&self) -> Option<&RedisStore> {
        match &self.0 {
            Kind::Memory(_) => None,
            Kind::Redis(store) => Some(store),
        }
    }

    /// Forgets everything, as a server that lost its data. Only inside this process.
    pub fn forget(&self) {
        if let Kind::Memory(memory) = &self.0 {
            memory.shards.lock().clear();
        }
    }

    /// Applies a decision of a sale.
    ///
    /// # Errors
    /// Refused, unreachable, or no answer; see [`Apply`].
    pub async fn apply<D: Port<State = Shard>>(
        &self,
        at: &Keys,
        decision: D,
        within: Duration,
    ) -> Result<Answer<D::Reply>, Error> {
        match &self.0 {
            Kind::Memory(memory) => memory.apply_now(at, decision, within),
            Kind::Redis(store) => store.apply(at, decision, within).await,
        }
    }
}

impl Memory {
    fn apply_now<D: Decision<State = Shard>>(
        &self,
        at: &Keys,
        mut decision: D,
        within: Duration,
    ) -> Result<Answer<D::Reply>, Error> {
        let mut shards = self.shards.lock();
        let now = self.clock.wall();
        decision.set_not_after(now.after(within));
        // A sale is decided shard by shard.
        let key = at.at(0);
        if !shards.contains_key(key) {
            forget_expired(&mut shards, now);
        }
        let cell = shards.entry(key.clone()).or_default();
        let verdict = decide_within(&decision, std::slice::from_mut(cell), now);
        if cell.is_empty() {
            shards.remove(key);
        }
        match verdict {
            Ok(Ok(reply)) => Ok(Answer { reply, at: now, sent: 1 }),
            Ok(Err(_too_late)) => Err(Error::new(ErrorKind::TooLate, D::NAME, "").with_key(at)),
            Err(wrong) => Err(wrong.into_error::<D>(at)),
        }
    }
}

/// Sales that are over take no memory for ever.
fn forget_expired(shards: &mut HashMap<Key, Shard>, now: Timestamp) {
    shards.retain(|_, shard| {
        shard.expire(now);
        !shard.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{ManualClock, Prefix};

    use super::*;
    use crate::sale::shard::{Look, Open};

    #[tokio::test]
    async fn sales_that_are_over_are_forgotten_when_another_one_comes() {
        let clock = Arc::new(ManualClock::default());
        let store = SaleStore::memory(clock.clone());
        let at = |name: &str| Keys::from(Key::new(&Prefix::new("shop:").unwrap(), name).unwrap());
        let within = Duration::from_secs(1);
        for name in ["{a:0}", "{b:0}"] {
            let (opens, not_after) = (clock.wall(), Timestamp::MAX);
            let until = opens.after(within);
            let open = Open { opens, closes: until, until, epoch: 1, left: 1, sold: 0, not_after };
            store.apply(&at(name), open, within).await.unwrap();
            clock.advance(within * 2);
        }
        assert_eq!(store.apply(&at("{c:0}"), Look, within).await.unwrap().reply, None);
        let Kind::Memory(memory) = &store.0 else { panic!("not in memory") };
        assert!(memory.shards.lock().is_empty());
    }
}
