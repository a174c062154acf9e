//! What tells one request from another under the same key.

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use lockkeeper::{Fingerprint, fingerprint};

use super::refusal::Refusal;
use super::refusal_kind::RefusalKind;

type Find = dyn Fn(&Parts, &[u8]) -> Fingerprint + Send + Sync;

/// How requests are compared.
pub(super) enum Compared {
    /// JSON by what it says, everything else byte by byte.
    Content,
    Bytes,
    By(Arc<Find>),
}

impl Compared {
    /// The media type is part of it, without its parameters; so is the content's encoding, which is not undone.
    ///
    /// # Errors
    /// The body is to be compared as JSON, and is none.
    pub(super) fn fingerprint(&self, parts: &Parts, body: &[u8]) -> Result<Fingerprint, Refusal> {
        let (media_type, encoding) = (media_type(parts), content_encoding(parts));
        let of_body = match self {
            Self::By(find) => return Ok(find(parts, body)),
            Self::Content if is_json(&media_type) && encoding.is_empty() && !body.is_empty() => {
                fingerprint::of_json(body).map_err(|error| {
                    Refusal::new(RefusalKind::BodyUnreadable)
                        .because(format!("The body is not valid JSON: {}.", error.detail()))
                })?
            }
            Self::Content | Self::Bytes => fingerprint::of_bytes(body),
        };
        Ok(fingerprint::of_parts([media_type.as_bytes(), encoding.as_bytes(), of_body.as_bytes()]))
    }
}

fn media_type(parts: &Parts) -> String {
    let value = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default();
    String::from_utf8_lossy(essence.trim_ascii()).to_ascii_lowercase()
}

/// Empty where there is none.
fn content_encoding(parts: &Parts) -> String {
    let values = parts.headers.get_all(CONTENT_ENCODING).iter();
    let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    let all = values.join(",").to_ascii_lowercase();
    if all.trim() == "identity" { String::new() } else { all }
}

fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http::request::Builder;

    use super::*;

    fn of(compared: &Compared, request: Builder, body: &[u8]) -> Result<Fingerprint, Refusal> {
        compared.fingerprint(&request.body(()).unwrap().into_parts().0, body)
    }

    fn typed(media_type: &str) -> Builder {
        Request::post("/orders").header(CONTENT_TYPE, media_type)
    }

    fn json(body: &str) -> Fingerprint {
        of(&Compared::Content, typed("application/json"), body.as_bytes()).unwrap()
    }

    #[test]
    fn c37_the_order_of_members_says_nothing_but_byte_by_byte_it_does() {
        let (one, other) = (r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{ "b": {"d":3,"c":2}, "a":1 }"#);
        assert_eq!(json(one), json(other));
        let bytes = |body: &str| of(&Compared::Bytes, typed("application/json"), body.as_bytes()).unwrap();
        assert_ne!(bytes(one), bytes(other));
        let text = |body: &str| of(&Compared::Content, typed("text/plain"), body.as_bytes()).unwrap();
        assert_ne!(text(one), text(other), "it does not say that it is JSON");
    }

    #[test]
    fn c38_what_says_something_else_is_something_else() {
        for (one, other) in [
            (r#"{"a":null}"#, "{}"),
            ("[1,2]", "[2,1]"),
            ("1", r#""1""#),
            ("\"\u{e9}\"", "\"e\u{301}\""),
            ("9007199254740992", "9007199254740993"),
        ] {
            assert_ne!(json(one), json(other), "{one} and {other}");
        }
        assert_eq!(json("1"), json("1.0"));
        assert_eq!(json("1"), json("1e0"));
    }

    #[test]
    fn c38_what_is_no_json_that_can_be_compared_is_refused_and_says_why() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for body in [r#"{"a":1,"a":1}"#, "{", "nothing", "\u{feff}{}", &deep] {
            let refusal = of(&Compared::Content, typed("application/json"), body.as_bytes()).unwrap_err();
            assert_eq!((refusal.kind(), refusal.status().as_u16()), (RefusalKind::BodyUnreadable, 400));
            assert!(refusal.problem().contains("not valid JSON"), "{}", refusal.problem());
            assert!(of(&Compared::Bytes, typed("application/json"), body.as_bytes()).is_ok(), "{body}");
        }
    }

    #[test]
    fn the_media_type_is_part_of_it_without_its_parameters() {
        let of = |media_type| of(&Compared::Content, typed(media_type), b"{}").unwrap();
        assert_eq!(of("application/json"), of("Application/JSON; charset=utf-8"));
        assert_ne!(of("application/json"), of("application/merge-patch+json"));
        assert_ne!(of("text/plain"), of("text/csv"));
        assert_ne!(of("text/plain"), of("application/json"));
    }

    #[test]
    fn what_is_compressed_or_empty_is_not_read_as_json() {
        let gzip = || typed("application/json").header(CONTENT_ENCODING, "gzip");
        let compressed = of(&Compared::Content, gzip(), b"\x1f\x8b{}").unwrap();
        assert_ne!(compressed, of(&Compared::Content, typed("text/plain"), b"\x1f\x8b{}").unwrap());
        assert!(of(&Compared::Content, typed("application/json"), b"").is_ok());
        let identity = typed("application/json").header(CONTENT_ENCODING, "identity");
        assert_eq!(of(&Compared::Content, identity, b"{}").unwrap(), json("{}"));
    }
}
