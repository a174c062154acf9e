//! Who asks: the header `X-Account`.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;

use super::problem::Problem;
use super::reason::Reason;
use crate::sale::Buyer;

/// The header that says who asks.
pub(crate) const ACCOUNT: HeaderName = HeaderName::from_static("x-account");
/// What an answer with status 401 must say.
pub(super) const CHALLENGE: HeaderValue = HeaderValue::from_static("Account realm=\"shop\"");

/// Who asks.
pub(super) struct Account(pub(super) Buyer);

/// A name out of the path.
pub(super) struct Named<T>(pub(super) T);

/// Who asks, if exactly one is named and it is an account.
pub(crate) fn account_of(headers: &HeaderMap) -> Result<Buyer, Problem> {
    let mut values = headers.get_all(ACCOUNT).iter();
    let Some(value) = values.next() else {
        return Err(Problem::new(Reason::NoAccount, "Say who asks in the header X-Account."));
    };
    if values.next().is_some() {
        return Err(Problem::new(Reason::BadAccount, "The header X-Account is there more than once."));
    }
    let bad = || "X-Account has 1 to 64 printable ASCII characters without spaces.";
    let text = value.to_str().map_err(|_| Problem::new(Reason::BadAccount, bad()))?;
    text.parse().map_err(|_| Problem::new(Reason::BadAccount, bad()))
}

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        account_of(&parts.headers).map(Self)
    }
}

impl<S: Send + Sync, T: FromStr<Err: std::fmt::Display>> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::new(Reason::BadName, rejection.body_text()))?;
        text.parse().map(Self).map_err(|error: T::Err| Problem::new(Reason::BadName, error.to_string()))
    }
}
