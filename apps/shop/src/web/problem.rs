//! Refusals as problem details (RFC 9457).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::response::IntoResponse;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde::Serialize;

use super::account::CHALLENGE;
use super::reason::Reason;
use crate::orders::OrderError;
use crate::sale::SaleError;

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// Longer explanations are cut: some repeat what a stranger sent.
const MAX_DETAIL: usize = 300;
/// When to come back where nobody could say so.
const SOON: Duration = Duration::from_secs(1);
/// The longest wait that is told: a day.
const MAX_RETRY_AFTER: u64 = 24 * 3600;

/// How often something below failed in this process.
static AWAY: AtomicU64 = AtomicU64::new(0);
/// How often it made a mistake.
static BROKEN: AtomicU64 = AtomicU64::new(0);

/// Counts. How often it was, where that is to be logged: the first time, the second, the fourth and so on, so that nobody
/// floods the log.
fn loud(count: &AtomicU64) -> Option<u64> {
    Some(count.fetch_add(1, Ordering::Relaxed) + 1).filter(|times| times.is_power_of_two())
}

/// A refusal.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    status: StatusCode,
    detail: String,
    retry_after: Option<Duration>,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    reason: &'static str,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        let retry_after = (reason.status() == StatusCode::SERVICE_UNAVAILABLE).then_some(SOON);
        Self { reason, status: reason.status(), detail: detail.into(), retry_after }
    }

    pub(crate) fn after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    pub(crate) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn unknown_sale() -> Self {
        Self::new(Reason::UnknownSale, "No sale has this name.")
    }

    /// Something below failed. The log says what; the client is told that it may come back.
    pub(crate) fn away(error: &dyn std::error::Error) -> Self {
        if let Some(times) = loud(&AWAY) {
            tracing::warn!(%error, times, "shop_store_away");
        }
        Self::new(
            Reason::StoreAway,
            "The store or the database cannot say right now. Ask again: what was begun is not done twice.",
        )
    }

    fn seconds(&self) -> Option<u64> {
        self.retry_after.map(|wait| (wait.as_millis().div_ceil(1000) as u64).clamp(1, MAX_RETRY_AFTER))
    }
}

impl From<OrderError> for Problem {
    fn from(error: OrderError) -> Self {
        let reason = match &error {
            OrderError::Busy => {
                let detail = "Another request works on this order. Ask again for the same order.";
                return Self::new(Reason::OrderUnderWay, detail).after(SOON);
            }
            OrderError::PaymentUnknown => {
                let detail =
                    "The payment provider gave no answer. Ask again for the same order: it is charged once.";
                return Self::new(Reason::PaymentUnknown, detail);
            }
            OrderError::Lock(_) | OrderError::Database(_) => return Self::away(&error),
            OrderError::Taken => Reason::OrderTaken,
            OrderError::Differs => Reason::OrderDiffers,
            OrderError::Refused => Reason::OrderRefused,
            OrderError::Declined(_) => Reason::Declined,
            OrderError::Stale => Reason::StaleFence,
            OrderError::Damaged => Reason::Broken,
        };
        Self::new(reason, error.to_string())
    }
}

impl From<SaleError> for Problem {
    fn from(error: SaleError) -> Self {
        if let SaleError::NoSale(_) = &error {
            return Self::unknown_sale();
        }
        if error.is_transient() {
            return Self::away(&error);
        }
        if let Some(times) = loud(&BROKEN) {
            tracing::error!(%error, times, "shop_broken");
        }
        Self::new(Reason::Broken, "The log of the shop says more.")
    }
}

impl Problem {
    /// The answer, with the reason in its extensions, for whoever counts.
    pub(super) fn response(self) -> Response<String> {
        let seconds = self.seconds();
        let detail: String = self.detail.chars().take(MAX_DETAIL).collect();
        let body = Body {
            r#type: match self.status {
                StatusCode::TOO_MANY_REQUESTS => QUOTA_EXCEEDED.to_owned(),
                _ => format!("urn:problem-type:shop:{}", self.reason.as_str()),
            },
            title: self.reason.title(),
            status: self.status.as_u16(),
            detail: &detail,
            reason: self.reason.as_str(),
            retry_after: seconds,
        };
        // Text and numbers alone: there is nothing in it that could fail.
        let mut response = Response::new(serde_json::to_string(&body).unwrap_or_default());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, MEDIA_TYPE);
        if let Some(seconds) = seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, CHALLENGE);
        }
        response.extensions_mut().insert(self.reason);
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.response().map(axum::body::Body::from)
    }
}
