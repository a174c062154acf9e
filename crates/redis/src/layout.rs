//! Every key that this project writes, and when it goes (invariant 7).
//!
//! | key | holds | expiry |
//! |---|---|---|
//! | `<prefix><name>` | a lock's owner token | the lease |
//! | `<prefix>~fence:…` | its last fence, decimal | the lease and two days, re-armed by renewals |
//! | `<prefix>~wait:…` | who waits for it: a hash of a keeper's line to `expires_ms:count` | 2.5 s after the last note |
//! | `<prefix>~permit:…` | a concurrency limit's permits: a sorted set of owner tokens by the end of their lease in µs | the last of these leases |
//! | `~quorum` | a majority's server: under which of its runs it has forgotten nothing | none: it is about the server and not about a lock, there is one, and a server that has lost it abstains (were it to expire, each server would abstain from time to time) |
//! | `<prefix><limiter>:<tag>:<subject>` | how much of one limit is used, see below | when all of it is there again |
//! | `<once prefix><name>:<key>` | an operation's record, see below | running: the lease, then the time an unknown outcome is held, then the retention; ended: the retention |
//!
//! The `tag` has algorithm, format and numbers of the limit ([`Quota::tag`](lockkeeper_core::limit::Quota::tag)); the prefix
//! is `limit:` unless somebody chose another. A limit has no side key. Its main key holds, in decimal microseconds of the
//! server's clock:
//!
//! | tag | holds |
//! |---|---|
//! | `t…` token bucket | `at` or `at:part`: when the bucket would be full, and parts of 1/refill µs |
//! | `w…`, `f…` fixed window | `start:used` |
//! | `c…` sliding counter | `start:previous:current`, kept for two windows |
//! | `l…` sliding log | a sorted set: when each call was, by a number of 16 digits that grows |
//!
//! A record of idempotency is one string, whose prefix is `once:` unless somebody chose another; its bytes, with the format
//! they are in, are those of [`Record::to_bytes`](lockkeeper_core::idempotency::Record::to_bytes). It has no side key: its
//! fence is in it.
//!
//! A side key lies in the cluster slot of its main key, which is never renamed (here with `~fence:`, likewise with
//! `~wait:` and `~permit:`):
//!
//! * a main key with a valid hash tag: `<prefix>~fence::<name>`, which has the same tag;
//! * a main key without braces: `<prefix>~fence:{<main key>}`;
//! * any other braces (`a{b`, `{}x`, `a{}b{c}`): `<prefix>~fence:{<tag of the slot>}:<name>`.

use std::sync::OnceLock;

use lockkeeper_core::Key;

/// The marker of a server of a majority. It has no prefix, because all clients of the servers have to find it.
pub const QUORUM_MARKER: &str = "~quorum";
const FENCE_MARK: &[u8] = b"~fence:";
const PRESENCE_MARK: &[u8] = b"~wait:";
const PERMIT_MARK: &[u8] = b"~permit:";
/// What side keys have after their prefix.
pub(crate) const MARKS: [&[u8]; 3] = [FENCE_MARK, PRESENCE_MARK, PERMIT_MARK];
/// How many slots a cluster has.
pub(crate) const SLOTS: usize = 16_384;

/// The side key with a lock's fence.
pub fn fence_key(main: &Key) -> Vec<u8> {
    side_key(main, FENCE_MARK)
}

/// The side key with those who wait for a lock.
pub fn presence_key(main: &Key) -> Vec<u8> {
    side_key(main, PRESENCE_MARK)
}

/// The key with the permits of a concurrency limit. A lock of the same name has nothing to do with it, but its slot.
pub fn permit_key(main: &Key) -> Vec<u8> {
    side_key(main, PERMIT_MARK)
}

/// A side key of somebody else's decision, named by a word of lower-case letters: `<prefix>~word:…`.
pub fn side_key_of(main: &Key, word: &str) -> Vec<u8> {
    side_key(main, &[b"~", word.as_bytes(), b":"].concat())
}

fn side_key(main: &Key, mark: &[u8]) -> Vec<u8> {
    let (prefix, name, whole) = (main.prefix(), main.name(), main.as_bytes());
    if hash_tag(whole).is_some() {
        return [prefix, mark, b":", name].concat();
    }
    if !whole.iter().any(|byte| matches!(byte, b'{' | b'}')) {
        return [prefix, mark, b"{", whole, b"}"].concat();
    }
    let tag = slot_tags()[usize::from(slot_of(whole))].to_string();
    [prefix, mark, b"{", tag.as_bytes(), b"}:", name].concat()
}

/// The cluster slot of a key: CRC16 (XMODEM) of its hash tag, or of the whole key, modulo 16,384.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS as u16
}

/// What lies between the first `{` and the next `}`, if it is not empty.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|&byte| byte == b'}')?;
    (close > 0).then(|| &rest[..close])
}

/// For each slot the smallest number whose decimal digits hash to it. Made once, on the first name that needs it.
fn slot_tags() -> &'static [u32] {
    static TAGS: OnceLock<Vec<u32>> = OnceLock::new();
    TAGS.get_or_init(|| {
        let mut tags = vec![u32::MAX; SLOTS];
        let mut missing = SLOTS;
        for number in 0u32.. {
            let tag = &mut tags[usize::from(crc16(number.to_string().as_bytes())) % SLOTS];
            if *tag == u32::MAX {
                *tag = number;
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
        }
        tags
    })
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockkeeper_core::Prefix;

    fn fence_of(prefix: &str, name: &str) -> (Key, Vec<u8>) {
        let key = Key::new(&Prefix::new(prefix).unwrap(), name).unwrap();
        let fence = fence_key(&key);
        (key, fence)
    }

    #[test]
    fn crc16_is_the_one_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo{bar}baz"), slot_of(b"bar"));
    }

    #[test]
    fn l95_side_keys_lie_in_the_slot_of_their_main_key_and_begin_with_the_prefix() {
        let names = [
            "order:1",
            "{Test}:abc:key",
            "a{b",
            "a}b",
            "{}",
            "{}x",
            "a{}b{c}",
            "{a}{b}",
            "}{",
            "{{a}}",
            "a{b}c{",
            "\n",
        ];
        for prefix in ["lock:", "", "{app}:", "x{app}"] {
            for name in names {
                let (key, fence) = fence_of(prefix, name);
                assert_eq!(slot_of(key.as_bytes()), slot_of(&fence), "{prefix}{name}");
                assert_eq!(slot_of(key.as_bytes()), slot_of(&side_key_of(&key, "word")), "{prefix}{name}");
                assert!(fence.starts_with(&[prefix.as_bytes(), b"~fence:"].concat()), "{prefix}{name}");
            }
        }
    }

    #[test]
    fn l98_the_layout_is_what_the_documents_say() {
        assert_eq!(fence_of("lock:", "order:1").1, b"lock:~fence:{lock:order:1}");
        assert_eq!(presence_key(&fence_of("lock:", "order:1").0), b"lock:~wait:{lock:order:1}");
        assert_eq!(permit_key(&fence_of("lock:", "order:1").0), b"lock:~permit:{lock:order:1}");
        assert_eq!(fence_of("lock:", "{Test}:k").1, b"lock:~fence::{Test}:k");
        assert_eq!(fence_of("", "k").1, b"~fence:{k}");
    }

    #[test]
    fn different_main_keys_never_share_a_side_key() {
        let names = ["a", "{a}", "{lock:a}", "a}", "{a", "lock:a", "{a}:a", "1:a", "{1}:a"];
        let fences: std::collections::HashSet<_> =
            names.iter().map(|name| fence_of("lock:", name).1).collect();
        assert_eq!(fences.len(), names.len());
    }
}
