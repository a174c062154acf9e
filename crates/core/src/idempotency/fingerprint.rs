//! What tells one request from another under the same key.

use std::fmt;

/// A collision-resistant digest (256 bits) of a request.
///
/// It is compared and never shown in full: whoever guesses a request could check the guess against it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Length of the hexadecimal form.
    pub const HEX_CHARS: usize = 64;

    /// From the digest.
    pub const fn new(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// As the record has it: 64 digits in lower case.
    pub fn to_hex(self) -> [u8; Self::HEX_CHARS] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; Self::HEX_CHARS];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        hex
    }

    /// `None` unless it is 64 digits in lower case.
    pub fn from_hex(hex: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        if hex.len() != Self::HEX_CHARS {
            return None;
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(digest))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = self.to_hex();
        write!(f, "Fingerprint({}…)", std::str::from_utf8(&hex[..8]).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_survives_its_hexadecimal_form_and_nothing_else_is_one() {
        let print = Fingerprint::new(std::array::from_fn(|at| at as u8 * 8 + 7));
        assert_eq!(Fingerprint::from_hex(&print.to_hex()), Some(print));
        let upper = print.to_hex().to_ascii_uppercase();
        for bad in [&upper[..], b"", &print.to_hex()[1..], &[b'g'; 64]] {
            assert_eq!(Fingerprint::from_hex(bad), None);
        }
        assert!(format!("{print:?}").len() < 32, "shown in full");
    }
}
