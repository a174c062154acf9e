//! The arm of a real cluster: three primaries and three replicas, in real time.

use std::time::Duration;

use lockkeeper::core::lock::LockStore;
use lockkeeper::core::{Answer, Apply, Error, Key, Keys, Prefix};
use lockkeeper::redis::port::Port;
use lockkeeper::redis::{RedisStore, slot_of};

use super::{Arm, FenceStore, Plant};

/// A cluster in real time, under one hash tag, so that several keys may be in one step. Time passes by itself, and nothing
/// is planted: only contracts that need neither exact times nor damage can be run.
pub struct RealCluster {
    store: UnderTag,
}

/// The same keys with a common hash tag.
#[derive(Clone, Debug)]
pub struct UnderTag {
    store: RedisStore,
    tag: String,
}

impl RealCluster {
    /// On a store that is connected.
    pub fn new(store: RedisStore, tag: &str) -> Self {
        Self { store: UnderTag { store, tag: format!("{{{tag}}}") } }
    }

    /// Where its keys are.
    pub fn slot(&self) -> u16 {
        slot_of(self.store.tag.as_bytes())
    }

    /// The store, for contracts that ask for no more.
    pub fn tagged(&self) -> &UnderTag {
        &self.store
    }
}

impl<D: Port> Apply<D> for UnderTag {
    async fn apply(&self, at: &Keys, decision: D, within: Duration) -> Result<Answer<D::Reply>, Error> {
        let tagged = at.as_slice().iter().map(|key| self.tagged(key)).collect();
        self.store.apply(&Keys::in_order(tagged).expect("keys"), decision, within).await
    }
}

impl UnderTag {
    fn tagged(&self, key: &Key) -> Key {
        let prefix = [self.tag.as_bytes(), key.prefix()].concat();
        let prefix = Prefix::new(String::from_utf8(prefix).expect("text")).expect("a prefix");
        Key::new(&prefix, key.name()).expect("a key")
    }
}

impl Arm for RealCluster {
    fn name(&self) -> String {
        format!("a cluster, slot {}", self.slot())
    }

    fn store(&self) -> &dyn LockStore {
        &self.store
    }

    fn fences(&self) -> &dyn FenceStore {
        &self.store
    }

    /// Waits. A little more, because the server's clock goes its own way.
    fn advance(&self, by: Duration) {
        std::thread::sleep(by + Duration::from_millis(50));
    }

    fn step_back(&self, _: Duration) {
        panic!("real clocks are not set back");
    }

    fn plant(&self, _: &Key, _: &Plant) {
        panic!("nothing is planted here");
    }
}
