//! What foreign clients may do to the key of a limit.

use lockkeeper::core::limit::{Algorithm, LimitCell, Stored};
use lockkeeper::core::{Key, Timestamp};

use crate::arm::SteppedRedis;

/// What a foreign client does.
#[derive(Clone, Debug)]
pub enum Plant {
    /// The key becomes this string, with this many milliseconds to live, or no expiry.
    Text(Vec<u8>, Option<u64>),
    /// The key becomes a list.
    List,
    /// The key becomes a hash.
    Hash,
    /// The key becomes a log of calls at these microseconds, without expiry.
    Log(Vec<u64>),
    /// The key becomes a sorted set whose last member is none of ours.
    Ranking,
    /// The key loses its expiry.
    Persist,
    /// The key goes.
    Gone,
}

impl Plant {
    /// On the model, where the key is one of `algorithm`.
    pub(super) fn on_cell(&self, cell: &mut LimitCell, algorithm: Algorithm, now: Timestamp) {
        let text = |text: &[u8]| Stored::parse(algorithm, text).unwrap_or(Stored::Foreign);
        let (stored, expires_ms) = match self {
            Self::Text(bytes, ttl) => (text(bytes), ttl.map(|ttl| now.as_millis() + ttl)),
            Self::List | Self::Hash | Self::Ranking => (Stored::Foreign, None),
            Self::Log(times) => match algorithm {
                Algorithm::SlidingLog { .. } => {
                    let mut times = times.clone();
                    times.sort_unstable();
                    (Stored::Log(times.into()), None)
                }
                _ => (Stored::Foreign, None),
            },
            Self::Persist => (std::mem::take(&mut cell.stored), None),
            Self::Gone => (Stored::Empty, None),
        };
        *cell = LimitCell { stored, expires_ms };
    }

    /// On a server.
    pub(super) fn on_server(&self, redis: &SteppedRedis, key: &Key) {
        let name = key.as_bytes();
        match self {
            Self::Persist => return redis.command(&[b"PERSIST", name]),
            Self::Text(text, None) => return redis.command(&[b"SET", name, text]),
            Self::Text(text, Some(ttl)) => {
                return redis.command(&[b"SET", name, text, b"PX", ttl.to_string().as_bytes()]);
            }
            _ => redis.command(&[b"DEL", name]),
        }
        match self {
            Self::List => redis.command(&[b"RPUSH", name, b"x"]),
            Self::Hash => redis.command(&[b"HSET", name, b"x", b"1"]),
            Self::Ranking => redis.command(&[b"ZADD", name, b"1", b"0000000000000001", b"2", b"ann"]),
            Self::Log(times) => {
                let mut times = times.clone();
                times.sort_unstable();
                for (number, time) in times.iter().enumerate() {
                    let member = format!("{:016}", number + 1);
                    redis.command(&[b"ZADD", name, time.to_string().as_bytes(), member.as_bytes()]);
                }
            }
            _ => {}
        }
    }
}
