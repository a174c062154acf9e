//! The client's key, from the header `Idempotency-Key`.

use http::HeaderMap;
use http::header::HeaderName;
use sfv::{BareItem, Item, Parser};

/// The header's name.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The longest key of a client, in characters.
pub const MAX_KEY_CHARS: usize = 255;
/// No header value with a valid key is longer: quotes, a backslash before each character, and some parameters.
const MAX_FIELD_BYTES: usize = 1024;

/// The header has no one valid key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The key of a request: quoted, as a string of a structured field (`"8e03978e"`, parameters behind it say nothing), or
/// bare (`8e03978e`), which is the same key.
///
/// # Errors
/// Several values; a key that is empty, longer than [`MAX_KEY_CHARS`], or has characters that its form does not allow.
pub(super) fn client_key(headers: &HeaderMap) -> Result<Option<String>, Malformed> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let value = value.as_bytes().trim_ascii();
    if values.next().is_some() || value.len() > MAX_FIELD_BYTES {
        return Err(Malformed);
    }
    let key = if value.starts_with(b"\"") { quoted(value) } else { bare(value) };
    match key {
        Some(key) if (1..=MAX_KEY_CHARS).contains(&key.len()) => Ok(Some(key)),
        _ => Err(Malformed),
    }
}

fn quoted(value: &[u8]) -> Option<String> {
    match Parser::new(value).parse::<Item>().ok()?.bare_item {
        BareItem::String(key) => Some(key.as_str().to_owned()),
        _ => None,
    }
}

/// Nothing that a list, parameters or quotes are made of: proxies join several values with a comma.
fn bare(value: &[u8]) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b',' | b';');
    value.iter().all(is_plain).then(|| value.iter().copied().map(char::from).collect())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[&[u8]]) -> Result<Option<String>, Malformed> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
        }
        client_key(&headers)
    }

    #[test]
    fn quoted_and_bare_are_the_same_key() {
        for form in ["8e03978e-40d5", "\"8e03978e-40d5\"", "  8e03978e-40d5 ", "\"8e03978e-40d5\";v=1"] {
            assert_eq!(of(&[form.as_bytes()]), Ok(Some("8e03978e-40d5".to_owned())), "{form}");
        }
        assert_eq!(of(&[br#""a \"b\" \\ c""#]), Ok(Some(r#"a "b" \ c"#.to_owned())));
        assert_eq!(of(&[]), Ok(None));
    }

    #[test]
    fn what_is_no_one_valid_key_is_refused() {
        let longest = "k".repeat(MAX_KEY_CHARS);
        assert_eq!(of(&[longest.as_bytes()]), Ok(Some(longest.clone())));
        assert_eq!(of(&[format!("\"{longest}\"").as_bytes()]), Ok(Some(longest.clone())));
        let escaped = r"\\".repeat(MAX_KEY_CHARS);
        assert_eq!(of(&[format!("\"{escaped}\"").as_bytes()]), Ok(Some("\\".repeat(MAX_KEY_CHARS))));
        let (too_long, quoted) = (format!("{longest}k"), format!("\"{longest}k\""));
        let bad: [&[&[u8]]; 14] = [
            &[b""],
            &[b"\"\""],
            &[b"a", b"b"],
            &[b"a", b"a"],
            &[b"a, b"],
            &[b"\"a\", \"b\""],
            &[b"a b"],
            &[b"a;b=1"],
            &[b"\"a"],
            &[b"a\""],
            &[b"na\xc3\xafve"],
            &[b"\"na\xc3\xafve\""],
            &[too_long.as_bytes()],
            &[quoted.as_bytes()],
        ];
        for values in bad {
            assert_eq!(of(values), Err(Malformed), "{values:?}");
        }
    }

    proptest! {
        /// Anything: never a panic, and what is a key is printable and within bounds.
        #[test]
        fn any_value_is_a_valid_key_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                headers.insert(IDEMPOTENCY_KEY, value);
            }
            if let Ok(Some(key)) = client_key(&headers) {
                prop_assert!((1..=MAX_KEY_CHARS).contains(&key.len()));
                prop_assert!(key.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{key:?}");
            }
        }

        #[test]
        fn every_printable_key_can_be_sent_in_quotes(key in "[ -~]{1,255}") {
            let escaped = key.replace('\\', r"\\").replace('"', "\\\"");
            prop_assert_eq!(of(&[format!("\"{escaped}\"").as_bytes()]), Ok(Some(key)));
        }
    }
}
