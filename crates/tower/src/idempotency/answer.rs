//! An answer as the bytes that a record keeps.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lockkeeper::{Error, Stored};
use serde::{Deserialize, Serialize};

use super::replayed::may_be_replayed;
use super::settings::refuse;

/// The most that is kept of status, headers and trailers of one answer, in bytes. An answer with more is not kept.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// An answer that is kept for a key, and replayed.
///
/// As bytes, it is a line of JSON and the body behind it, so that an operator can write one by hand:
///
/// ```text
/// {"status":201,"headers":[["content-type","text/plain"],["location","/orders/7"]]}
/// done
/// ```
///
/// To resolve an outcome that nobody knows with the answer that was due:
///
/// ```
/// use http::StatusCode;
/// use http::header::{HeaderValue, LOCATION};
/// use lockkeeper_tower::idempotency::KeptAnswer;
///
/// # fn main() -> Result<(), lockkeeper::Error> {
/// let mut answer = KeptAnswer::new(StatusCode::CREATED, "done");
/// answer.headers.insert(LOCATION, HeaderValue::from_static("/orders/7"));
/// let stored = answer.to_stored()?; // for `Resolution::Completed`
/// assert_eq!(KeptAnswer::read(&stored), Some(answer));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The status.
    pub status: StatusCode,
    /// The headers that are replayed.
    pub headers: HeaderMap,
    /// The body; `None` where it was not kept.
    pub body: Option<Bytes>,
    /// What comes behind the body.
    pub trailers: HeaderMap,
}

/// Header values are bytes: each is written as the character of that number.
#[derive(Serialize, Deserialize)]
struct Head {
    status: u16,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    trailers: Vec<(String, String)>,
}

impl KeptAnswer {
    /// An answer with a body, without headers.
    pub fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { body: Some(body.into()), ..Self::without_body(status) }
    }

    /// An answer whose body is not kept.
    pub fn without_body(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: None, trailers: HeaderMap::new() }
    }

    /// What a record keeps.
    ///
    /// # Errors
    /// Status, headers and trailers are more than [`MAX_HEAD_BYTES`], or all of it is larger than a record can be.
    pub fn to_stored(&self) -> Result<Stored, Error> {
        let head = Head {
            status: self.status.as_u16(),
            headers: written(&self.headers),
            trailers: written(&self.trailers),
        };
        let head = serde_json::to_string(&head).map_err(|error| refuse(error.to_string()))?;
        if head.len() > MAX_HEAD_BYTES {
            return Err(refuse(format!("headers of {} bytes; at most {MAX_HEAD_BYTES}", head.len())));
        }
        match &self.body {
            Some(body) => Stored::whole([head.as_bytes(), b"\n", body].concat()),
            None => Stored::not_kept(head.into_bytes()),
        }
    }

    /// `None` where the record keeps something else. Headers of one exchange, such as `Set-Cookie` and `Content-Length`, are
    /// left out, whoever wrote them.
    pub fn read(stored: &Stored) -> Option<Self> {
        let bytes = stored.bytes();
        let (head, body) = if stored.is_whole() {
            let end = bytes.iter().position(|byte| *byte == b'\n')?;
            (&bytes[..end], Some(Bytes::copy_from_slice(&bytes[end + 1..])))
        } else {
            (bytes, None)
        };
        if head.len() > MAX_HEAD_BYTES {
            return None;
        }
        let head: Head = serde_json::from_slice(head).ok()?;
        let status = StatusCode::from_u16(head.status).ok()?;
        let (headers, trailers) = (read(head.headers)?, read(head.trailers)?);
        Some(Self { status, headers: may_be_replayed(&headers), body, trailers: may_be_replayed(&trailers) })
    }
}

fn written(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| value.as_bytes().iter().copied().map(char::from).collect();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

fn read(headers: Vec<(String, String)>) -> Option<HeaderMap> {
    let one = |(name, text): (String, String)| {
        let value: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        Some((HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(&value.ok()?).ok()?))
    };
    headers.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_TYPE, LINK};
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8]) -> Option<KeptAnswer> {
        KeptAnswer::read(&Stored::whole(bytes).unwrap())
    }

    #[test]
    fn an_answer_can_be_written_by_hand() {
        let answer =
            whole(b"{\"status\":201,\"headers\":[[\"content-type\",\"text/plain\"]]}\ntwo\nlines").unwrap();
        assert_eq!((answer.status, answer.body), (StatusCode::CREATED, Some(Bytes::from("two\nlines"))));
        assert_eq!(answer.headers[CONTENT_TYPE], "text/plain");
        assert_eq!(whole(b"{\"status\":204}\n").unwrap().body, Some(Bytes::new()));
    }

    #[test]
    fn what_is_no_answer_is_none_and_no_panic() {
        let wide = "{\"status\":200,\"headers\":[[\"a\",\"\u{20ac}\"]]}\n".as_bytes();
        for bytes in [
            &b""[..],
            b"\n",
            b"{\"order\":7}",
            b"{\"order\":7}\n",
            b"{\"status\":99}\n",
            b"{\"status\":70000}\n",
            b"{\"status\":200}",
            b"{\"status\":200,\"headers\":[[\"a b\",\"c\"]]}\n",
            b"{\"status\":200,\"headers\":[[\"a\",\"\\n\"]]}\n",
            wide,
        ] {
            assert_eq!(whole(bytes), None, "{}", bytes.escape_ascii());
        }
        assert_eq!(KeptAnswer::read(&Stored::not_kept(&b""[..]).unwrap()), None);
    }

    #[test]
    fn a_head_beyond_its_bound_is_refused() {
        let mut answer = KeptAnswer::new(StatusCode::OK, "");
        let value = HeaderValue::from_bytes(&vec![b'x'; MAX_HEAD_BYTES - 200]).unwrap();
        answer.headers.append(LINK, value.clone());
        assert!(answer.to_stored().is_ok());
        answer.headers.append(LINK, value);
        assert!(answer.to_stored().unwrap_err().to_string().contains("at most 16384"));
    }

    #[test]
    fn c28_what_an_operator_wrote_of_one_exchange_is_not_replayed() {
        let head = r#"{"status":200,"headers":[["content-length","7"],["set-cookie","a=b"],["transfer-encoding","chunked"],
            ["location","/orders/7"]],"trailers":[["connection","close"],["x-sum","1"]]}"#;
        let answer = whole(&[&head.replace('\n', ""), "\n", "done"].concat().into_bytes()).unwrap();
        assert_eq!(
            (answer.headers.len(), &answer.headers["location"]),
            (1, &HeaderValue::from_static("/orders/7"))
        );
        assert_eq!((answer.trailers.len(), &answer.trailers["x-sum"]), (1, &HeaderValue::from_static("1")));
    }

    proptest! {
        #[test]
        fn c29_every_answer_comes_back_byte_by_byte(
            status in 100_u16..1000,
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5),
            body in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        ) {
            let mut answer = KeptAnswer::without_body(StatusCode::from_u16(status).unwrap());
            for value in values.iter().filter_map(|value| HeaderValue::from_bytes(value).ok()) {
                answer.headers.append(LINK, value.clone());
                answer.trailers.append(CONTENT_TYPE, value);
            }
            answer.body = body.map(Bytes::from);
            prop_assert_eq!(KeptAnswer::read(&answer.to_stored().unwrap()), Some(answer));
        }
    }
}
