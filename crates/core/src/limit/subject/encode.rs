//! One value, escaped or digested, in bounded space and without an allocation.

use sha2::{Digest as _, Sha256};

use crate::url_safe::{URL_SAFE_CHARS, url_safe};

/// The longest value that is kept as it is, in escaped bytes. What is longer becomes a digest.
pub const MAX_VALUE_BYTES: usize = 96;
/// Begins a digest. A value never begins with it unescaped.
const DIGEST_MARK: u8 = b'#';

/// An encoded value. Holds no `@`, so a part ends where the next one begins, and no brace, so whoever chose the
/// value chooses no cluster slot.
pub(super) struct Encoded {
    bytes: [u8; MAX_VALUE_BYTES],
    length: usize,
}

impl Encoded {
    /// Escaped where that is short enough, else a digest.
    pub(super) fn value(raw: &[u8]) -> Self {
        Self::escaped(raw).unwrap_or_else(|| Self::digest(&[raw]))
    }

    /// `#` and the first 128 bits of the SHA-256 of the pieces together.
    pub(super) fn digest(pieces: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        pieces.iter().for_each(|piece| hasher.update(piece));
        let hash = hasher.finalize();
        let first: [u8; 16] = std::array::from_fn(|at| hash[at]);
        let mut bytes = [0; MAX_VALUE_BYTES];
        bytes[0] = DIGEST_MARK;
        bytes[1..=URL_SAFE_CHARS].copy_from_slice(&url_safe(first));
        Self { bytes, length: 1 + URL_SAFE_CHARS }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// `None` as soon as it is too long: of a huge value only the beginning is read.
    fn escaped(raw: &[u8]) -> Option<Self> {
        let mut encoded = Self { bytes: [0; MAX_VALUE_BYTES], length: 0 };
        for (at, &byte) in raw.iter().enumerate() {
            if stands_as_it_is(byte, at == 0) {
                encoded.push(&[byte])?;
            } else {
                encoded.push(&[b'%', hex(byte >> 4), hex(byte & 15)])?;
            }
        }
        Some(encoded)
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.length + bytes.len();
        self.bytes.get_mut(self.length..end)?.copy_from_slice(bytes);
        self.length = end;
        Some(())
    }
}

fn stands_as_it_is(byte: u8, first: bool) -> bool {
    match byte {
        b'%' | b'{' | b'}' | b'@' => false,
        DIGEST_MARK => !first,
        _ => matches!(byte, b' '..=b'~'),
    }
}

fn hex(nibble: u8) -> u8 {
    b"0123456789ABCDEF"[usize::from(nibble)]
}
