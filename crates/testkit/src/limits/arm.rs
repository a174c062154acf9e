//! What an arm of a test of limits can do.

use std::future::Future;
use std::time::Duration;

use lockkeeper::core::limit::{Algorithm, Check, Limit, LimitCell, Peek, Quota, Refund, Reset, Stored};
use lockkeeper::core::{Apply, Clock, Error, Key, Keys, MemoryStore, Prefix, Timestamp};
use lockkeeper::redis::RedisStore;

use super::plant::Plant;
use crate::arm::{Arm, MemoryArm, SteppedRedis};

/// A store of limits under a clock that a test steps.
pub trait LimitArm: Arm {
    /// Its store.
    type Store: Apply<Check> + Apply<Peek> + Apply<Refund> + Apply<Reset> + Clone + 'static;
    /// The store.
    fn limits(&self) -> &Self::Store;
    /// The store's wall clock.
    fn now(&self) -> Timestamp;
    /// Sets the store's wall clock, as an administrator would; its clients do not notice.
    fn set_clock(&self, to: Timestamp);
    /// Does what a foreign client might to a key of `algorithm`.
    fn plant_limit(&self, key: &Key, algorithm: Algorithm, plant: &Plant);
    /// What is kept under these keys of these algorithms, read as anybody could.
    fn kept(&self, at: &Keys, algorithms: &[Algorithm]) -> impl Future<Output = Vec<LimitCell>>;
}

impl LimitArm for MemoryArm {
    type Store = MemoryStore;

    fn limits(&self) -> &MemoryStore {
        &self.store
    }

    fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    fn set_clock(&self, to: Timestamp) {
        self.clock.set_wall(to);
    }

    fn plant_limit(&self, key: &Key, algorithm: Algorithm, plant: &Plant) {
        let now = self.clock.wall();
        self.store.tamper(key, |cell: &mut LimitCell| plant.on_cell(cell, algorithm, now));
    }

    async fn kept(&self, at: &Keys, _: &[Algorithm]) -> Vec<LimitCell> {
        let mut cells = Vec::new();
        for key in at.as_slice() {
            self.store.tamper(key, |cell: &mut LimitCell| cells.push(cell.clone()));
        }
        cells
    }
}

/// Type, `PTTL` and content of each key.
const LOOK: &str = "
local out = {}
for i = 1, #KEYS do
  local kind, content = redis.call('TYPE', KEYS[i]).ok, ''
  if kind == 'string' then content = redis.call('GET', KEYS[i]) end
  if kind == 'zset' then content = table.concat(redis.call('ZRANGE', KEYS[i], 0, -1, 'WITHSCORES'), ' ') end
  out[3 * i - 2], out[3 * i - 1], out[3 * i] = kind, string.format('%.0f', redis.call('PTTL', KEYS[i])), content
end
return out";

impl LimitArm for SteppedRedis {
    type Store = RedisStore;

    fn limits(&self) -> &RedisStore {
        self.redis()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.server_clock())
    }

    fn set_clock(&self, to: Timestamp) {
        self.set_server_clock(to.as_micros());
    }

    fn plant_limit(&self, key: &Key, _: Algorithm, plant: &Plant) {
        plant.on_server(self, key);
    }

    async fn kept(&self, at: &Keys, algorithms: &[Algorithm]) -> Vec<LimitCell> {
        let keys: Vec<String> = at.as_slice().iter().map(ToString::to_string).collect();
        let many = keys.len().to_string();
        let command: Vec<&str> =
            ["EVAL", LOOK, &many].into_iter().chain(keys.iter().map(String::as_str)).collect();
        let seen: Result<Vec<Vec<u8>>, Error> = self.redis().query(&command, Duration::from_secs(5)).await;
        let seen = seen.expect("a look at the server");
        let cells = seen.chunks(3).zip(algorithms);
        cells.map(|(seen, algorithm)| cell(*algorithm, &seen[0], &seen[1], &seen[2], self.now())).collect()
    }
}

fn cell(algorithm: Algorithm, kind: &[u8], pttl: &[u8], content: &[u8], now: Timestamp) -> LimitCell {
    let pttl: i64 = String::from_utf8_lossy(pttl).parse().expect("a number");
    let is_log = matches!(algorithm, Algorithm::SlidingLog { .. });
    let stored = match kind {
        b"none" => Stored::Empty,
        b"string" => Stored::parse(algorithm, content).unwrap_or(Stored::Foreign),
        b"zset" if is_log => log(content).unwrap_or(Stored::Foreign),
        _ => Stored::Foreign,
    };
    let expires_ms = u64::try_from(pttl).ok().map(|left| now.as_millis() + left);
    LimitCell { stored, expires_ms }
}

/// A log whose members are numbers of 16 digits that grow with their times.
fn log(content: &[u8]) -> Option<Stored> {
    let words: Vec<&str> = std::str::from_utf8(content).ok()?.split(' ').collect();
    let is_number = |member: &str| member.len() == 16 && member.bytes().all(|byte| byte.is_ascii_digit());
    let members: Vec<&str> = words.iter().step_by(2).copied().collect();
    let is_ours =
        members.iter().all(|member| is_number(member)) && members.is_sorted_by(|one, next| one < next);
    let times: Option<_> = words.iter().skip(1).step_by(2).map(|time| time.parse().ok()).collect();
    times.filter(|_| is_ours).map(Stored::Log)
}

/// The keys of these subjects under `limit:`, in this order.
pub fn keys(subjects: &[&str]) -> Keys {
    let prefix = Prefix::new("limit:").expect("a prefix");
    let keys = subjects.iter().map(|subject| Key::new(&prefix, subject).expect("a key"));
    Keys::in_order(keys.collect()).expect("keys")
}

/// The quota of a limit that has one.
pub fn quota(limit: Result<Limit, Error>) -> Quota {
    limit.expect("a valid limit").quota().expect("a quota")
}
