//! The arms, as stores of permits.

use std::time::Duration;

use lockkeeper::core::lock::OwnerToken;
use lockkeeper::core::lock::permit::{
    AcquirePermit, InspectPermits, PermitCell, Permits, ReleasePermit, RenewPermit,
};
use lockkeeper::core::{Apply, Clock, Key, MemoryStore, Timestamp};
use lockkeeper::redis::{RedisStore, permit_key};

use super::{Arm, MemoryArm, SteppedRedis};

/// A store of permits.
pub trait PermitStore:
    Apply<AcquirePermit> + Apply<RenewPermit> + Apply<ReleasePermit> + Apply<InspectPermits>
{
}

impl<S> PermitStore for S where
    S: Apply<AcquirePermit> + Apply<RenewPermit> + Apply<ReleasePermit> + Apply<InspectPermits>
{
}

/// What a foreign client may do to permits.
#[derive(Clone, Debug)]
pub enum PermitPlant {
    /// The key becomes a string.
    Text,
    /// The key goes.
    Gone,
    /// The key loses its expiry.
    Persist,
    /// This token holds a permit until so many microseconds from now; the key loses its expiry.
    Holder(Vec<u8>, u64),
}

/// A store of permits under a clock that a test steps.
pub trait PermitArm: Arm {
    /// The store.
    fn permits(&self) -> &impl PermitStore;
    /// Does what a foreign client might.
    fn plant_permits(&self, key: &Key, plant: &PermitPlant);
    /// How long the server keeps the key by itself: as long as the last lease, in milliseconds, rounded up. `None`:
    /// there is no key.
    fn kept_for_ms(&self, key: &Key) -> Option<u64>;
}

impl PermitArm for MemoryArm {
    fn permits(&self) -> &impl PermitStore {
        &self.store as &MemoryStore
    }

    fn plant_permits(&self, key: &Key, plant: &PermitPlant) {
        let now = self.clock.wall();
        self.store.tamper(key, |cell: &mut PermitCell| match plant {
            PermitPlant::Text => *cell = PermitCell::WrongType,
            PermitPlant::Gone => *cell = PermitCell::default(),
            PermitPlant::Persist => {}
            PermitPlant::Holder(token, left_us) => {
                let mut permits = match cell {
                    PermitCell::Ours(permits) => std::mem::take(permits),
                    PermitCell::WrongType => Permits::default(),
                };
                let ends = now.after(Duration::from_micros(*left_us)).as_micros();
                permits.put(&OwnerToken::given(token).expect("a token"), ends);
                *cell = PermitCell::Ours(permits);
            }
        });
    }

    fn kept_for_ms(&self, key: &Key) -> Option<u64> {
        let (now, mut kept) = (self.clock.wall(), None);
        self.store.tamper(key, |cell: &mut PermitCell| {
            let PermitCell::Ours(permits) = cell else { return };
            let last = permits
                .in_order()
                .last()
                .map(|(ends, _)| Timestamp::from_micros(ends.next_multiple_of(1000)));
            kept = last.map(|last| last.as_millis() - now.as_millis());
        });
        kept
    }
}

impl PermitArm for SteppedRedis {
    fn permits(&self) -> &impl PermitStore {
        &self.store as &RedisStore
    }

    fn plant_permits(&self, key: &Key, plant: &PermitPlant) {
        let key = permit_key(key);
        match plant {
            PermitPlant::Text => self.command(&[b"SET", &key, b"x"]),
            PermitPlant::Gone => self.command(&[b"DEL", &key]),
            PermitPlant::Persist => self.command(&[b"PERSIST", &key]),
            PermitPlant::Holder(token, left_us) => {
                let ends = (self.server_clock() + left_us).to_string();
                let reply = self.server().command_bytes(&[b"TYPE", &key]).expect("a reply");
                if reply.as_str() == Some("string") {
                    self.command(&[b"DEL", &key]);
                }
                self.command(&[b"ZADD", &key, ends.as_bytes(), token]);
                self.command(&[b"PERSIST", &key]);
            }
        }
    }

    fn kept_for_ms(&self, key: &Key) -> Option<u64> {
        let reply = self.server().command_bytes(&[b"PTTL", &permit_key(key)]).expect("a reply");
        let left = reply.as_int().expect("a number");
        assert_ne!(left, -1, "{key} has no expiry");
        u64::try_from(left).ok()
    }
}
