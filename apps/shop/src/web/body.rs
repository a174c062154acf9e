//! Bodies: JSON, bounded.

use axum::Json;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use super::problem::Problem;
use super::reason::Reason;

/// The largest body of a request, in bytes.
pub const MAX_BODY: usize = 4096;

/// A JSON body.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(no) => Err(Problem::new(Reason::BadBody, no.body_text()).status(no.status())),
        }
    }
}
