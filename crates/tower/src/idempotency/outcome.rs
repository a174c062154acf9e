//! Which outcomes are kept.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::response::Parts;

/// What becomes of a key after its request was answered. A handler puts one into its response's extensions to decide
/// instead of the layer.
///
/// ```
/// use http::Response;
/// use lockkeeper_tower::idempotency::Outcome;
///
/// fn export(rows: String) -> Response<String> {
///     let mut response = Response::new(rows);
///     response.extensions_mut().insert(Outcome::HeadKept); // streamed: its first byte goes out at once
///     response
/// }
/// # export(String::new());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The answer is kept, and replayed.
    Kept,
    /// It is done, and never run again; status and headers are kept, and the body is not: it passes without being read.
    HeadKept,
    /// Nothing was done: the key is open, also for a different request.
    NoEffect,
}

/// Which answers count as done. The others had no effect.
pub(super) type IsDone = dyn Fn(&Parts) -> bool + Send + Sync;

impl Outcome {
    pub(super) fn of(response: &Parts, is_done: &IsDone) -> Self {
        if let Some(declared) = response.extensions.get::<Self>() {
            return *declared;
        }
        match is_done(response) {
            false => Self::NoEffect,
            true if response.status.is_informational() || is_event_stream(response) => Self::HeadKept,
            true => Self::Kept,
        }
    }
}

/// All but what says that the server could not, or not now.
pub(super) fn is_done(response: &Parts) -> bool {
    let status = response.status;
    let not_now =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS].contains(&status);
    !status.is_server_error() && !not_now
}

/// It has no end to wait for.
fn is_event_stream(response: &Parts) -> bool {
    let media_type = response.headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    let essence = media_type.and_then(|value| value.split(|byte| *byte == b';').next());
    essence.is_some_and(|essence| essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    fn of(status: u16, media_type: &str, declared: Option<Outcome>) -> Outcome {
        let mut response =
            Response::builder().status(status).header(CONTENT_TYPE, media_type).body(()).unwrap();
        declared.map(|declared| response.extensions_mut().insert(declared));
        Outcome::of(&response.into_parts().0, &is_done)
    }

    #[test]
    fn c20_what_the_server_could_not_do_is_not_kept_and_everything_else_is() {
        for status in [200, 201, 202, 204, 301, 303, 304, 400, 401, 403, 404, 409, 422] {
            assert_eq!(of(status, "text/plain", None), Outcome::Kept, "{status}");
        }
        for status in [408, 425, 429, 500, 501, 502, 503, 504, 599] {
            assert_eq!(of(status, "text/event-stream", None), Outcome::NoEffect, "{status}");
        }
    }

    #[test]
    fn c35_streams_of_events_and_switched_protocols_are_not_read() {
        assert_eq!(of(200, "Text/Event-Stream; charset=utf-8", None), Outcome::HeadKept);
        assert_eq!(of(200, "text/event-streams", None), Outcome::Kept);
        assert_eq!(of(101, "text/plain", None), Outcome::HeadKept);
    }

    #[test]
    fn what_a_handler_declares_counts() {
        assert_eq!(of(503, "text/plain", Some(Outcome::Kept)), Outcome::Kept);
        assert_eq!(of(200, "text/event-stream", Some(Outcome::NoEffect)), Outcome::NoEffect);
        assert_eq!(of(200, "text/plain", Some(Outcome::HeadKept)), Outcome::HeadKept);
    }
}
