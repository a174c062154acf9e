//! The future of a call.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::error::ClientError;

type Outcome<T, E> = Result<T, ClientError<E>>;

/// A call with its retries and waits.
///
/// Dropping it drops the attempt under way; the circuit then takes that attempt as not made. What the attempt did on
/// the server is unknown.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<T, E> {
    call: Pin<Box<dyn Future<Output = Outcome<T, E>> + Send>>,
}

impl<T, E> ResponseFuture<T, E> {
    pub(crate) fn new(call: impl Future<Output = Outcome<T, E>> + Send + 'static) -> Self {
        Self { call: Box::pin(call) }
    }
}

impl<T, E> Future for ResponseFuture<T, E> {
    type Output = Outcome<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.as_mut().poll(context)
    }
}

impl<T, E> fmt::Debug for ResponseFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
