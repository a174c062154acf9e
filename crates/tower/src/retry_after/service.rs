//! The service around a client.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use super::call::Call;
use super::error::BoxError;
use super::future::ResponseFuture;
use super::layer::Shared;
use super::message::{Answered, CloneRequest, Cloned, Retryable};

/// A client that keeps away as long as it was told; made by [`RetryAfterLayer`](super::RetryAfterLayer).
///
/// It is always ready: a request that waits for a hold to end must not keep a place in the client below, so each
/// attempt waits for its own clone of that client to be ready. Limits on concurrency belong above this service, or on
/// both sides.
#[derive(Clone)]
pub struct RetryAfter<S, C = Cloned> {
    inner: S,
    shared: Arc<Shared>,
    cloner: C,
}

impl<S, C> RetryAfter<S, C> {
    pub(crate) fn new(inner: S, shared: Arc<Shared>, cloner: C) -> Self {
        Self { inner, shared, cloner }
    }

    /// The client below.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, C, R> Service<R> for RetryAfter<S, C>
where
    R: Retryable + Send + 'static,
    C: CloneRequest<R> + Clone + Send + 'static,
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Answered + Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let call = Call::new(self.shared.clone(), &request);
        let (inner, cloner) = (self.inner.clone(), self.cloner.clone());
        ResponseFuture::new(async move { call.run(inner, cloner, request).await })
    }
}

impl<S: fmt::Debug, C> fmt::Debug for RetryAfter<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryAfter").field("inner", &self.inner).finish_non_exhaustive()
    }
}
