//! What a process knows of a sale: its terms, its keys, and for a moment that it is sold out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::{Error, Key, Keys, Prefix};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::terms::Terms;

/// What all keys of the shop begin with.
pub const PREFIX: &str = "shop:";
/// For how long a process believes that a sale is sold out, without looking at the other shards again. A unit that comes
/// back is sold by every process within this time.
pub const SOLD_OUT_FOR: Duration = Duration::from_millis(200);

/// One sale, as this process knows it.
#[derive(Debug)]
pub(super) struct Sale {
    pub(super) terms: Terms,
    /// One per shard.
    keys: Vec<Keys>,
    /// How often this process brought units to a shard.
    arrivals: Vec<AtomicU64>,
    sold_out_until: Mutex<Option<Instant>>,
    /// The highest fence of a rebuilding that this process has heard of.
    fence: AtomicU64,
    /// One caller at a time goes from shard to shard; the others wait for what that brings.
    pub(super) bringing: tokio::sync::Mutex<()>,
}

impl Sale {
    pub(super) fn new(terms: Terms) -> Result<Self, Error> {
        let prefix = Prefix::new(PREFIX)?;
        let key = |shard: u8| Key::new(&prefix, format!("{{{}:{shard}}}", terms.sku)).map(Keys::from);
        let keys: Result<Vec<Keys>, Error> = terms.all_shards().map(key).collect();
        let arrivals = terms.all_shards().map(|_| AtomicU64::new(0)).collect();
        let (sold_out_until, bringing) = (Mutex::default(), tokio::sync::Mutex::default());
        let fence = AtomicU64::new(0);
        Ok(Self { keys: keys?, terms, arrivals, sold_out_until, fence, bringing })
    }

    /// The keys of a shard.
    pub(super) fn at(&self, shard: u8) -> &Keys {
        &self.keys[usize::from(shard) % self.keys.len()]
    }

    pub(super) fn arrivals(&self, shard: u8) -> u64 {
        self.arrivals[usize::from(shard) % self.arrivals.len()].load(Ordering::Acquire)
    }

    pub(super) fn arrived(&self, shard: u8) {
        self.arrivals[usize::from(shard) % self.arrivals.len()].fetch_add(1, Ordering::AcqRel);
        self.something_left();
    }

    pub(super) fn fence(&self) -> u64 {
        self.fence.load(Ordering::Acquire)
    }

    /// Somebody rebuilt a part of the sale under this fence. Fences never fall.
    pub(super) fn rebuilt_under(&self, fence: u64) {
        self.fence.fetch_max(fence, Ordering::AcqRel);
    }

    /// Everybody said so, a moment ago.
    pub(super) fn is_sold_out(&self) -> bool {
        self.sold_out_until.lock().is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn sold_out(&self) {
        *self.sold_out_until.lock() = Some(Instant::now() + SOLD_OUT_FOR);
    }

    /// A unit came back.
    pub(super) fn something_left(&self) {
        *self.sold_out_until.lock() = None;
    }
}
