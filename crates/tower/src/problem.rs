//! Problem details (RFC 9457) as answers.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An answer with problem details.
pub(crate) fn response<R>(status: StatusCode, details: R) -> Response<R> {
    let mut response = Response::new(details);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
    response
}

/// Rounded up.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        let whole = |us| whole_seconds(Duration::from_micros(us));
        assert_eq!([0, 1, 200_000, 1_000_000, 1_000_001].map(whole), [0, 1, 1, 1, 2]);
    }
}
