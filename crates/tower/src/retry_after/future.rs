//! The future of a call.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::error::BoxError;

type Outcome<T> = Result<T, BoxError>;

/// A call with its retries and waits.
///
/// Dropping it drops the attempt under way; the circuit then takes that attempt as not made. What the attempt did on
/// the server is unknown.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<T> {
    call: Pin<Box<dyn Future<Output = Outcome<T>> + Send>>,
}

impl<T> ResponseFuture<T> {
    pub(crate) fn new(call: impl Future<Output = Outcome<T>> + Send + 'static) -> Self {
        Self { call: Box::pin(call) }
    }
}

impl<T> Future for ResponseFuture<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.as_mut().poll(context)
    }
}

impl<T> fmt::Debug for ResponseFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
