//! 128 bits as text that needs no escaping anywhere.

/// What 128 bits take.
pub(crate) const URL_SAFE_CHARS: usize = 22;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// In the URL-safe alphabet of base64, the lowest six bits first: not what a base64 encoder would write.
pub(crate) fn url_safe(bits: [u8; 16]) -> [u8; URL_SAFE_CHARS] {
    let mut bits = u128::from_be_bytes(bits);
    std::array::from_fn(|_| {
        let char = ALPHABET[(bits & 63) as usize];
        bits >>= 6;
        char
    })
}

pub(crate) fn is_url_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}
