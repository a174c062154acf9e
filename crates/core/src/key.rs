//! Names: what a caller may call a lock, and the prefix that keeps it apart from other keys.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::error::Error;

/// The longest name or prefix, in bytes. A name is for people; hash what is longer.
pub const MAX_NAME_BYTES: usize = 4096;
/// The most keys that one decision takes at once.
pub const MAX_KEYS: usize = 128;
/// Side keys begin with the prefix and this mark, so names may not begin with it.
pub const RESERVED_MARK: u8 = b'~';

const OPERATION: &str = "name";

/// What every key of one kind begins with: `lock:` by default, possibly empty.
///
/// Any bytes, except that braces must form exactly one complete hash tag, such as `{app}:`, which then puts all
/// its keys into one cluster slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(Arc<[u8]>);

impl Prefix {
    /// # Errors
    /// Longer than [`MAX_NAME_BYTES`], or with braces that are not one complete hash tag.
    pub fn new(prefix: impl AsRef<[u8]>) -> Result<Self, Error> {
        let bytes = prefix.as_ref();
        check_length("prefix", bytes)?;
        let braces: Vec<usize> = (0..bytes.len()).filter(|&at| matches!(bytes[at], b'{' | b'}')).collect();
        let is_tag =
            |open: usize, close: usize| bytes[open] == b'{' && bytes[close] == b'}' && close > open + 1;
        match braces[..] {
            [] => Ok(Self(bytes.into())),
            [open, close] if is_tag(open, close) => Ok(Self(bytes.into())),
            _ => Err(Error::bad_argument(
                OPERATION,
                format!(
                    "prefix `{}`: braces must form one complete hash tag such as {{app}}",
                    Escaped(bytes)
                ),
            )),
        }
    }

    /// No prefix: the name is the key.
    pub fn empty() -> Self {
        Self(Arc::from([]))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The full name of a lock's main key on the server: prefix, then name, unchanged. Cheap to clone.
///
/// Equal when the bytes on the server are equal.
#[derive(Clone)]
pub struct Key {
    bytes: Arc<[u8]>,
    prefix_len: u16,
}

impl Key {
    /// The key of `name` under `prefix`. Any bytes will do: NUL, newline, `*`, braces, not UTF-8.
    ///
    /// # Errors
    /// The name is empty, longer than [`MAX_NAME_BYTES`], or begins with the reserved `~`.
    pub fn new(prefix: &Prefix, name: impl AsRef<[u8]>) -> Result<Self, Error> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Error::bad_argument(OPERATION, "the name is empty"));
        }
        check_length("name", name)?;
        if name[0] == RESERVED_MARK {
            let detail =
                format!("the name `{}` begins with `~`, which is reserved for side keys", Escaped(name));
            return Err(Error::bad_argument(OPERATION, detail));
        }
        let prefix_len = u16::try_from(prefix.0.len()).unwrap_or(u16::MAX);
        Ok(Self { bytes: prefix.as_bytes().iter().chain(name).copied().collect(), prefix_len })
    }

    /// The key of these bytes, of which nobody says what is prefix.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), prefix_len: 0 }
    }

    /// The main key's bytes on the server.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The part that all keys of this kind share.
    pub fn prefix(&self) -> &[u8] {
        &self.bytes[..usize::from(self.prefix_len)]
    }

    /// The caller's name, without the prefix.
    pub fn name(&self) -> &[u8] {
        &self.bytes[usize::from(self.prefix_len)..]
    }
}

/// Joins the parts of a compound name so that different parts never give the same name:
/// `["a", "b:c"]` is `a:b\:c` and `["a", "b", "c"]` is `a:b:c`.
pub fn join_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Vec<u8> {
    let mut name = Vec::new();
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            name.push(b':');
        }
        for &byte in part.as_ref() {
            if matches!(byte, b':' | b'\\') {
                name.push(b'\\');
            }
            name.push(byte);
        }
    }
    name
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}
impl Eq for Key {}
impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bytes.cmp(&other.bytes)
    }
}
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}
/// Equal and hashed as its bytes on the server are.
impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.bytes
    }
}
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.bytes).fmt(f)
    }
}
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// The keys of one decision: at least one, at most [`MAX_KEYS`], all different. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Keys(Several);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Several {
    One(Key),
    Many(Arc<[Key]>),
}

impl Keys {
    /// The keys in byte order.
    ///
    /// # Errors
    /// No key, or more than [`MAX_KEYS`]. A key that is named twice counts once.
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Result<Self, Error> {
        let mut keys: Vec<Key> = keys.into_iter().collect();
        keys.sort();
        keys.dedup();
        match keys.len() {
            0 => Err(Error::bad_argument(OPERATION, "no key was given")),
            1 => Ok(keys.remove(0).into()),
            2..=MAX_KEYS => Ok(Self(Several::Many(keys.into()))),
            many => Err(Error::bad_argument(OPERATION, format!("{many} keys at once; at most {MAX_KEYS}"))),
        }
    }

    /// The keys in the order given, for decisions that have something to say about each of them.
    ///
    /// # Errors
    /// No key, more than [`MAX_KEYS`], or one of them twice.
    pub fn in_order(keys: Vec<Key>) -> Result<Self, Error> {
        let twice = keys.iter().enumerate().find(|(at, key)| keys[..*at].contains(key));
        if let Some((_, key)) = twice {
            return Err(Error::bad_argument(OPERATION, "it is given twice").with_key(key));
        }
        match <[Key; 1]>::try_from(keys) {
            Ok([key]) => Ok(key.into()),
            Err(keys) if (1..=MAX_KEYS).contains(&keys.len()) => Ok(Self(Several::Many(keys.into()))),
            Err(keys) => Err(Error::bad_argument(
                OPERATION,
                format!("{} keys at once; at least one, at most {MAX_KEYS}", keys.len()),
            )),
        }
    }

    /// The keys.
    pub fn as_slice(&self) -> &[Key] {
        match &self.0 {
            Several::One(key) => std::slice::from_ref(key),
            Several::Many(keys) => keys,
        }
    }

    /// The key at `index`, or the first.
    pub fn at(&self, index: usize) -> &Key {
        let keys = self.as_slice();
        keys.get(index).unwrap_or(&keys[0])
    }
}

impl From<Key> for Keys {
    fn from(key: Key) -> Self {
        Self(Several::One(key))
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, key) in self.as_slice().iter().enumerate() {
            write!(f, "{}{key}", if at == 0 { "" } else { " + " })?;
        }
        Ok(())
    }
}

/// Shows bytes to a person: printable UTF-8 as it is, the rest escaped, and no more than 120 characters.
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 120;
        let shown = &self.0[..self.0.len().min(MOST)];
        for chunk in shown.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        if shown.len() < self.0.len() {
            write!(f, "… ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

fn check_length(what: &str, bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let detail = format!("the {what} has {} bytes; at most {MAX_NAME_BYTES}", bytes.len());
    Err(Error::bad_argument(OPERATION, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: impl AsRef<[u8]>) -> Result<Key, Error> {
        Key::new(&Prefix::new("lock:").unwrap(), name)
    }

    #[test]
    fn odd_names_are_kept_byte_for_byte() {
        for name in [&b"a\0b"[..], b"a\nb", b"*", b"{", b"}", b"{}", b"{}x", b"a{}b{c}", b"\xff\xfe", b" "] {
            let key = key(name).unwrap();
            assert_eq!(key.name(), name);
            assert_eq!(key.as_bytes(), [b"lock:", name].concat());
        }
    }

    #[test]
    fn empty_huge_and_reserved_names_are_refused_with_the_reason() {
        assert!(key("").unwrap_err().to_string().contains("empty"));
        assert!(key(vec![b'x'; 512 * 1024]).unwrap_err().to_string().contains("524288 bytes"));
        assert!(key("~fence:a").unwrap_err().to_string().contains("reserved"));
        assert!(key(vec![b'x'; MAX_NAME_BYTES]).is_ok());
    }

    #[test]
    fn l52_parts_are_joined_without_ambiguity() {
        assert_ne!(join_parts(["a", "bc"]), join_parts(["ab", "c"]));
        assert_ne!(join_parts(["a", "b:c"]), join_parts(["a", "b", "c"]));
        assert_ne!(join_parts(["a\\", "b"]), join_parts(["a\\:b"]));
        assert_eq!(join_parts(["a", "b"]), b"a:b");
    }

    #[test]
    fn a_prefix_may_be_empty_or_a_hash_tag_but_not_half_of_one() {
        assert!(Prefix::new("").is_ok() && Prefix::new("{app}:").is_ok());
        for bad in ["{", "}", "{}", "a{b", "}a{", "{a}{b}"] {
            assert!(Prefix::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_are_sorted_unique_and_bounded() {
        let two = Keys::new([key("b").unwrap(), key("a").unwrap(), key("b").unwrap()]).unwrap();
        assert_eq!(two.to_string(), "lock:a + lock:b");
        assert!(Keys::new([]).is_err());
        assert!(Keys::new((0..=MAX_KEYS).map(|n| key(n.to_string()).unwrap())).is_err());
    }

    #[test]
    fn what_is_shown_is_escaped_and_bounded() {
        assert_eq!(Escaped(b"a\n\xff").to_string(), "a\\n\\xff");
        assert!(Escaped(&[b'x'; 5000]).to_string().len() < 160);
    }
}
