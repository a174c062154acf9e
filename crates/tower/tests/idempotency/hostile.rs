//! Whatever strangers send.

use axum::body::Body;
use axum::extract::Request;
use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use crate::support::*;

/// Header values of any bytes that HTTP allows, and some that look like keys.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        "\"?[ -~]{0,260}\"?".prop_map(String::into_bytes),
        "[a-z0-9-]{1,40}".prop_map(String::into_bytes),
    ]
}

fn request(headers: &[(&'static str, Vec<u8>)], target: &str, body: Vec<u8>) -> Option<Request> {
    let mut request = Request::post(target).body(Body::from(body)).ok()?;
    for (name, value) in headers {
        request.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?);
    }
    Some(request)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Twice the same: never a 500, never two runs, and the second one is a replay if the first one ran.
    #[test]
    fn any_request_is_answered_and_runs_at_most_once(
        key in value(),
        user in value(),
        media_type in prop_oneof![Just(b"application/json".to_vec()), value()],
        target in "/[!-~&&[^#%\"<>\\\\^`{|}]]{0,80}",
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (router, runs) = numbered(builder(orders(&memory().await)));
            let headers = [("idempotency-key", key), ("x-user", user), ("content-type", media_type)];
            let again = || request(&headers, &target, body.clone());
            let (Some(first), Some(second)) = (again(), again()) else { return Ok(()) };
            let (first, second) = (send(&router, first).await, send(&router, second).await);
            prop_assert!(matches!(first.status(), 200 | 400), "{first:?}");
            prop_assert_eq!(first.status(), second.status());
            prop_assert_eq!(runs.count(), usize::from(first.status() == 200));
            prop_assert_eq!(second.is_replay(), first.status() == 200);
            Ok(())
        })?;
    }
}
