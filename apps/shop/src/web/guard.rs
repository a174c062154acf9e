//! Around every request: a bound in time, the count of refusals, and what browsers may do with answers.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

use super::problem::Problem;
use super::reason::Reason;
use super::shop::Shop;

/// The longest time until an answer begins.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(15);

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const FIELDS: [(HeaderName, &str); 4] = [
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, POLICY),
    (REFERRER_POLICY, "no-referrer"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

pub(super) async fn guard(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    let mut response = match tokio::time::timeout(ANSWER_WITHIN, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            Problem::new(Reason::TooSlow, "Ask again: what was begun is not done twice.").into_response()
        }
    };
    if let Some(reason) = response.extensions().get::<Reason>() {
        shop.tally().refuse(*reason);
    }
    for (name, value) in FIELDS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
