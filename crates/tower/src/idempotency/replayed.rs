//! Which headers are replayed.

use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// On every replay.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// For how many seconds the key is still remembered, on the first answer and on replays.
pub const IDEMPOTENCY_RETENTION: HeaderName = HeaderName::from_static("idempotency-retention");

pub(super) const TRUE: HeaderValue = HeaderValue::from_static("true");

/// What is said of the answer itself.
const ABOUT_THE_ANSWER: [HeaderName; 4] =
    [header::LOCATION, header::LINK, header::ALLOW, HeaderName::from_static("preference-applied")];

/// What is said of its body, and would be wrong beside another one.
const ABOUT_THE_BODY: [HeaderName; 10] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_DISPOSITION,
    header::CONTENT_LOCATION,
    header::ETAG,
    header::LAST_MODIFIED,
    header::CACHE_CONTROL,
    header::TRAILER,
    header::VARY,
];

/// Of one exchange alone, or of one connection.
const NEVER: [HeaderName; 16] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::PROXY_AUTHENTICATE,
    header::RETRY_AFTER,
    header::SET_COOKIE,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    IDEMPOTENCY_RETENTION,
    IDEMPOTENT_REPLAYED,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-correlation-id"),
    HeaderName::from_static("x-request-id"),
];
/// Limits are told as they stand now.
const NEVER_BEGINNING_WITH: [&str; 2] = ["ratelimit", "x-ratelimit"];

/// It belongs to one exchange, and is never replayed.
pub(super) fn is_never(name: &HeaderName) -> bool {
    NEVER.contains(name) || NEVER_BEGINNING_WITH.iter().any(|begin| name.as_str().starts_with(begin))
}

/// The headers that are replayed.
#[derive(Clone, Debug, Default)]
pub(super) struct Replayed {
    /// Beside those that always are.
    pub(super) more: Vec<HeaderName>,
}

impl Replayed {
    pub(super) fn kept(&self, headers: &HeaderMap) -> HeaderMap {
        only(headers, |name| self.has(name) || ABOUT_THE_BODY.contains(name))
    }

    /// Those that are true without the body.
    pub(super) fn kept_of_head(&self, headers: &HeaderMap) -> HeaderMap {
        only(headers, |name| self.has(name) && !ABOUT_THE_BODY.contains(name))
    }

    fn has(&self, name: &HeaderName) -> bool {
        ABOUT_THE_ANSWER.contains(name) || self.more.contains(name)
    }
}

/// All but those of one exchange alone.
pub(super) fn may_be_replayed(headers: &HeaderMap) -> HeaderMap {
    only(headers, |name| !is_never(name))
}

/// For how long the key is remembered. Rounded down: nothing is promised that does not hold.
pub(super) fn announce(headers: &mut HeaderMap, remaining: Duration) {
    headers.insert(IDEMPOTENCY_RETENTION, HeaderValue::from(remaining.as_secs()));
}

fn only(headers: &HeaderMap, is_kept: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| is_kept(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        all.iter().map(pair).collect()
    }

    #[test]
    fn c28_what_describes_the_answer_is_kept_and_what_belongs_to_its_exchange_is_not() {
        let answer = headers(&[
            ("location", "/orders/1"),
            ("etag", "\"1\""),
            ("link", "<a>; rel=a"),
            ("link", "<b>; rel=b"),
            ("content-type", "text/plain"),
            ("set-cookie", "session=1"),
            ("date", "now"),
            ("x-request-id", "1"),
            ("x-ratelimit-remaining", "3"),
            ("ratelimit", "1"),
            ("x-order", "1"),
        ]);
        let names = |kept: &HeaderMap| kept.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        let replayed = Replayed { more: vec![HeaderName::from_static("x-order")] };
        assert_eq!(
            names(&replayed.kept(&answer)),
            ["location", "etag", "link", "link", "content-type", "x-order"]
        );
        assert_eq!(names(&replayed.kept_of_head(&answer)), ["location", "link", "link", "x-order"]);
        assert_eq!(names(&Replayed::default().kept(&answer)).len(), 5, "only what is named");
    }

    #[test]
    fn all_trailers_are_kept_but_those_of_one_exchange() {
        let trailers = headers(&[("x-sum", "0"), ("set-cookie", "a"), ("x-ratelimit-reset", "1")]);
        assert_eq!(may_be_replayed(&trailers), headers(&[("x-sum", "0")]));
    }
}
