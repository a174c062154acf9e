//! The arms, as stores of idempotency.

use lockkeeper::core::idempotency::{
    Abandon, Begin, Complete, InspectOnce, KeepAlive, OnceCell, Record, Resolve,
};
use lockkeeper::core::{Apply, Clock, Key, MemoryStore, Prefix};
use lockkeeper::redis::RedisStore;

use super::{Arm, MemoryArm, SteppedRedis};

/// A store of idempotency.
pub trait OnceStore:
    Apply<Begin> + Apply<KeepAlive> + Apply<Complete> + Apply<Abandon> + Apply<Resolve> + Apply<InspectOnce>
{
}

impl<S> OnceStore for S where
    S: Apply<Begin>
        + Apply<KeepAlive>
        + Apply<Complete>
        + Apply<Abandon>
        + Apply<Resolve>
        + Apply<InspectOnce>
{
}

/// What a foreign client may do to a record.
#[derive(Clone, Debug)]
pub enum OncePlant {
    /// The key becomes this string; if that is a record, with so many milliseconds to live, or no expiry.
    Bytes(Vec<u8>, Option<u64>),
    /// The key becomes a list.
    List,
    /// The key loses its expiry.
    Persist,
    /// The key goes.
    Gone,
}

/// What is kept under a key, read as anybody could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnceKept {
    /// No key.
    Nothing,
    /// A record, and its milliseconds to live; `None` where it has no expiry.
    Record(Vec<u8>, Option<u64>),
    /// Something else.
    Foreign,
}

/// A store of idempotency under a clock that a test steps.
pub trait OnceArm: Arm {
    /// Its store.
    type Store: OnceStore + Clone + 'static;
    /// The store.
    fn once(&self) -> &Self::Store;
    /// Does what a foreign client might.
    fn plant_once(&self, key: &Key, plant: &OncePlant);
    /// What is kept.
    fn kept_once(&self, key: &Key) -> OnceKept;
}

impl OnceArm for MemoryArm {
    type Store = MemoryStore;

    fn once(&self) -> &MemoryStore {
        &self.store
    }

    fn plant_once(&self, key: &Key, plant: &OncePlant) {
        let now_ms = self.clock.wall().as_millis();
        self.store.tamper(key, |cell: &mut OnceCell| match plant {
            OncePlant::Bytes(bytes, ttl) => {
                *cell = match Record::from_bytes(bytes) {
                    Some(record) => OnceCell::Kept(Box::new(record), ttl.map(|ttl| now_ms + ttl)),
                    None => OnceCell::WrongType,
                }
            }
            OncePlant::List => *cell = OnceCell::WrongType,
            OncePlant::Persist => {
                if let OnceCell::Kept(_, expiry) = cell {
                    *expiry = None;
                }
            }
            OncePlant::Gone => *cell = OnceCell::Absent,
        });
    }

    fn kept_once(&self, key: &Key) -> OnceKept {
        let (now_ms, mut kept) = (self.clock.wall().as_millis(), OnceKept::Nothing);
        self.store.tamper(key, |cell: &mut OnceCell| match cell {
            OnceCell::Absent => {}
            OnceCell::WrongType => kept = OnceKept::Foreign,
            OnceCell::Kept(record, expiry) => {
                kept = OnceKept::Record(record.to_bytes(), expiry.map(|at| at - now_ms));
            }
        });
        kept
    }
}

impl OnceArm for SteppedRedis {
    type Store = RedisStore;

    fn once(&self) -> &RedisStore {
        &self.store
    }

    fn plant_once(&self, key: &Key, plant: &OncePlant) {
        let key = key.as_bytes();
        match plant {
            OncePlant::Bytes(bytes, Some(ttl)) if Record::from_bytes(bytes).is_some() => {
                self.command(&[b"SET", key, bytes, b"PX", ttl.to_string().as_bytes()]);
            }
            OncePlant::Bytes(bytes, _) => self.command(&[b"SET", key, bytes]),
            OncePlant::List => {
                self.command(&[b"DEL", key]);
                self.command(&[b"RPUSH", key, b"x"]);
            }
            OncePlant::Persist => self.command(&[b"PERSIST", key]),
            OncePlant::Gone => self.command(&[b"DEL", key]),
        }
    }

    fn kept_once(&self, key: &Key) -> OnceKept {
        let of = |command: &[u8]| self.server().command_bytes(&[command, key.as_bytes()]).expect("a reply");
        let (kind, left) = (of(b"TYPE"), of(b"PTTL").as_int().expect("a number"));
        match kind.as_str() {
            Some("none") => OnceKept::Nothing,
            Some("string") => match of(b"GET").as_bytes() {
                Some(bytes) if Record::from_bytes(bytes).is_some() => {
                    OnceKept::Record(bytes.to_vec(), u64::try_from(left).ok())
                }
                _ => OnceKept::Foreign,
            },
            _ => OnceKept::Foreign,
        }
    }
}

/// The key of `name` under `once:`.
pub fn once_key(name: &str) -> Key {
    Key::new(&Prefix::new("once:").expect("a prefix"), name).expect("a key")
}
