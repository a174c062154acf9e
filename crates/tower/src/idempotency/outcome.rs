//! Which outcomes are kept.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::response::Parts;
use lockkeeper::OnCrash;

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
#[non_exhaustive]
pub enum Outcome {
    /// The answer is kept, and replayed.
    Kept,
    /// It is done, and never run again; status and headers are kept, and the body is not: it passes without being read.
    HeadKept,
    /// Nothing was done: the key is open, also for a different request.
    NoEffect,
    /// It may have been done, or half of it: as if the process had died meanwhile. What becomes of the key,
    /// [`Once::on_crash`](lockkeeper::Once::on_crash) says.
    Crashed,
}

/// What an answer says by itself.
pub(super) type FindOutcome = dyn Fn(&Parts) -> Outcome + Send + Sync;

impl Outcome {
    pub(super) fn of(response: &Parts, find: &FindOutcome) -> Self {
        if let Some(declared) = response.extensions.get::<Self>() {
            return *declared;
        }
        match find(response) {
            Self::Kept if response.status.is_informational() || is_event_stream(response) => Self::HeadKept,
            found => found,
        }
    }
}

/// Not this request, but not now, or not by this caller: said before anything was done.
const NOT_NOW: [StatusCode; 6] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::TOO_EARLY,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// Everything is done but what says that the server could not, or not now.
pub(super) fn usual(policy: OnCrash, response: &Parts) -> Outcome {
    let status = response.status;
    if status.is_server_error() || NOT_NOW.contains(&status) {
        not_kept(policy, response)
    } else {
        Outcome::Kept
    }
}

/// What becomes of a key whose answer is not kept. Where an effect must not be repeated, a server that failed had one.
pub(super) fn not_kept(policy: OnCrash, response: &Parts) -> Outcome {
    let has_failed = response.status.is_server_error() && !NOT_NOW.contains(&response.status);
    if has_failed && policy != OnCrash::Rerun { Outcome::Crashed } else { Outcome::NoEffect }
}

/// It has no end to wait for.
fn is_event_stream(response: &Parts) -> bool {
    let media_type = response.headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    let essence = media_type.and_then(|value| value.split(|byte| *byte == b';').next());
    essence.is_some_and(|essence| essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Response;

    use super::*;

    const HOLD: OnCrash = OnCrash::Hold(Duration::from_secs(60));

    fn of(status: u16, media_type: &str, declared: Option<Outcome>) -> Outcome {
        under(OnCrash::Rerun, status, media_type, declared)
    }

    fn under(policy: OnCrash, status: u16, media_type: &str, declared: Option<Outcome>) -> Outcome {
        let mut response =
            Response::builder().status(status).header(CONTENT_TYPE, media_type).body(()).unwrap();
        declared.map(|declared| response.extensions_mut().insert(declared));
        Outcome::of(&response.into_parts().0, &move |response| usual(policy, response))
    }

    #[test]
    fn c20_what_the_server_could_not_do_is_not_kept_and_everything_else_is() {
        for status in [200, 201, 202, 204, 301, 303, 304, 400, 403, 404, 409, 422] {
            assert_eq!(of(status, "text/plain", None), Outcome::Kept, "{status}");
        }
        for status in [401, 407, 408, 425, 429, 500, 501, 502, 503, 504, 599] {
            assert_eq!(of(status, "text/event-stream", None), Outcome::NoEffect, "{status}");
        }
    }

    #[test]
    fn c8_a_server_that_failed_may_have_had_its_effect_where_that_must_not_be_repeated() {
        for status in [500, 501, 502, 504, 599] {
            assert_eq!(under(HOLD, status, "text/plain", None), Outcome::Crashed, "{status}");
        }
        for status in [401, 407, 408, 425, 429, 503] {
            assert_eq!(under(HOLD, status, "text/plain", None), Outcome::NoEffect, "{status}");
        }
        assert_eq!(under(HOLD, 404, "text/plain", None), Outcome::Kept);
        assert_eq!(under(HOLD, 500, "text/plain", Some(Outcome::NoEffect)), Outcome::NoEffect);
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
